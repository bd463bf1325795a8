/** Connections to Temporal, made the one way that Holdfast's bounds rely on. */
import {
  Client,
  Connection,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
  type ConnectionOptions,
} from '@temporalio/client';
import type { PayloadCodec } from '@temporalio/common';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import { NativeConnection, type NativeConnectionOptions } from '@temporalio/worker';
import { LOOPBACK_CHANNEL_ARGS } from './embedded.ts';

/** Where Temporal is, and as whom. */
export interface TemporalTarget {
  namespace: string;
  options: Pick<NativeConnectionOptions, 'address' | 'tls' | 'apiKey' | 'metadata'>;
}

/** The target that the environment names (`TEMPORAL_ADDRESS` and the other variables of Temporal's own tools). */
export function targetOfEnvironment(): TemporalTarget {
  const { connectionOptions, namespace } = loadClientConnectConfig();
  return { namespace: namespace ?? 'default', options: connectionOptions };
}

/** The bytes of the largest answer that is read: a history's event of a whole record, with room. */
const RECEIVE_BYTES_MAX = 16 * 1024 * 1024;

/**
 * The client's connection. The SDK waits 1 to 5 s before it repeats a call that was refused as RESOURCE_EXHAUSTED, which
 * a buffered verdict query often is: here a repeat comes after 25 ms, for as long as the call's own deadline allows.
 * Every call must therefore run inside `withDeadline`.
 */
export async function connectClient(target: TemporalTarget): Promise<Connection> {
  const { address, tls, apiKey, metadata } = target.options;
  const options: ConnectionOptions = {
    ...(address === undefined ? {} : { address }),
    ...(tls === undefined ? {} : { tls }),
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(metadata === undefined ? {} : { metadata }),
    // The default setting of this limit has no effect.
    channelArgs: {
      'grpc.max_receive_message_length': RECEIVE_BYTES_MAX,
      // By default the pause grows to two minutes: after an outage Holdfast would be back long after Temporal.
      'grpc.initial_reconnect_backoff_ms': 100,
      'grpc.max_reconnect_backoff_ms': 2_000,
      ...(address?.startsWith('127.') === true ? LOOPBACK_CHANNEL_ARGS : {}),
    },
    interceptors: [
      makeGrpcRetryInterceptor(defaultGrpcRetryOptions({ initialIntervalMs: () => 25, factor: 1, maxAttempts: 400 })),
    ],
  };
  return Connection.connect(options);
}

export function clientOf(
  connection: Connection,
  { namespace, payloadCodecs = [] }: { namespace: string; payloadCodecs?: PayloadCodec[] },
): Client {
  return new Client({
    connection,
    namespace,
    dataConverter: { payloadCodecs },
    // Closed workflows are read from their history, never replayed. At the top level this would be ignored.
    workflow: { queryRejectCondition: 'NOT_OPEN' },
  });
}

export async function connectWorker(target: TemporalTarget): Promise<NativeConnection> {
  return NativeConnection.connect(target.options);
}
