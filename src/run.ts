/** Puts the parts of Holdfast together; the mains and the demo differ only in which parts they ask for. */
import type { Logger } from 'pino';
import { createActivities } from '../activities/index.ts';
import type { Config } from './config/index.ts';
import { taskPolicyOf } from './config/index.ts';
import { KeyRing } from './credentials/key-ring.ts';
import { createApp } from './facade/app.ts';
import { listen } from './facade/listen.ts';
import { Gateway } from './scheduler/gateway.ts';
import { Scheduler } from './scheduler/scheduler.ts';
import { ServerClock } from './scheduler/server-clock.ts';
import {
  clientOf,
  connectClient,
  connectWorker,
  targetOfEnvironment,
  type TemporalTarget,
} from './temporal/connection.ts';
import { startEmbeddedTemporal } from './temporal/embedded.ts';
import { payloadCodecsOf } from './temporal/payload-codec.ts';
import { ensureSearchAttributes } from './temporal/search-attributes.ts';
import { HoldfastStartError } from './temporal/start-error.ts';
import { installRuntime, startWorkers } from './temporal/worker.ts';
import { createTransports } from './transports/index.ts';

export interface Parts {
  /** Start a Temporal server of our own, unless the environment names a cluster. */
  embedded: boolean;
  worker: boolean;
  api: boolean;
}

export interface Running {
  /** Null without the facade. */
  apiUrl: string | null;
  /** Null where Temporal is not ours. */
  uiUrl: string | null;
  temporal: TemporalTarget;
  /** Rejects when a part ends that should not; never resolves before `stop`. */
  failed: Promise<never>;
  /** Stops everything in order, within a bound. May be called again. */
  stop(): Promise<void>;
}

/**
 * Starts the parts in order, each with one log line and its URL. Whatever was started is stopped again when a later
 * part cannot start.
 */
export async function startHoldfast({
  config,
  parts,
  log,
  signal,
}: {
  config: Config;
  parts: Parts;
  log: Logger;
  /** Ends a start that is under way: what was started is stopped, and the start rejects with the signal's reason. */
  signal?: AbortSignal;
}): Promise<Running> {
  const payloadCodecs = payloadCodecsOf(
    config.payloadKeys.map(({ id, key }) => ({ id, key: Buffer.from(key.reveal(), 'base64') })),
  );
  const undo: (() => Promise<void>)[] = [];
  let closeApi = async (): Promise<void> => {};
  let stopping: Promise<void> | null = null;
  const stop = (): Promise<void> => {
    stopping ??= (async () => {
      // The facade before all else, so that nobody is let in any more; then the newest first, the server last.
      for (const undoOne of [closeApi, ...undo.toReversed()]) {
        await undoOne().catch((error: unknown) => log.error({ err: error }, 'a part did not stop in order'));
      }
    })();
    return stopping;
  };
  let fail!: (error: unknown) => void;
  const failed = new Promise<never>((_resolve, reject) => {
    fail = reject;
  });
  failed.catch(() => {
    // For whoever awaits it; while nobody does, it must not end the process by itself.
  });

  try {
    // A part that ends meanwhile ends the start, instead of leaving it to wait for that part.
    const reached = await Promise.race([reachTemporal(), failed]);
    return await Promise.race([startParts(reached), failed, untilAborted(signal)]);
  } catch (error) {
    await stop();
    throw error;
  }

  async function startParts({ target, uiUrl }: { target: TemporalTarget; uiUrl: string | null }): Promise<Running> {
    const connection = await connectClient(target).catch((error: unknown) => {
      const address = target.options.address ?? 'its default address';
      const reason = error instanceof Error ? error.message : String(error);
      throw new HoldfastStartError(
        'temporal-unreachable',
        `Temporal at ${address} does not answer (${reason}). Start it, or check TEMPORAL_ADDRESS.`,
        { cause: error },
      );
    });
    undo.push(() => connection.close());
    await ensureSearchAttributes(connection, target.namespace, log);
    // The facade first: where its port is a free one, the links in events follow from it.
    const apiUrl = parts.api ? await startApiPart() : null;
    if (parts.worker) await startWorkerPart(target, config.publicUrl ?? apiUrl);
    return { apiUrl, uiUrl, temporal: target, failed, stop };

    async function startApiPart(): Promise<string> {
      const keyRing = await openKeyRing();
      const gateway = new Gateway({
        client: clientOf(connection, { namespace: target.namespace, payloadCodecs }),
        taskQueue: config.taskQueue,
      });
      const { runTimeoutSeconds, runTimeoutSecondsMax } = config.policy;
      const scheduler = new Scheduler({
        gateway,
        clock: new ServerClock(Date.now, log),
        log,
        policy: taskPolicyOf(config),
        runTimeoutSeconds,
        runTimeoutSecondsMax,
      });
      const { host, port } = config.http;
      const listening = await listen(createApp({ scheduler, log, keyRing }), { host, port }).catch((error: unknown) => {
        throw startErrorOfListen(error, port);
      });
      closeApi = () => listening.close();
      log.info({ url: listening.url }, `API listening on ${listening.url}`);
      return listening.url;
    }
  }

  async function openKeyRing(): Promise<KeyRing | null> {
    if (config.keysFile === null) return null;
    return KeyRing.open(config.keysFile, { log }).catch((error: unknown) => {
      throw new HoldfastStartError('keys-unusable', error instanceof Error ? error.message : String(error));
    });
  }

  async function reachTemporal(): Promise<{ target: TemporalTarget; uiUrl: string | null }> {
    const { temporal } = config;
    if (!temporal.embedded) {
      const target = targetOfEnvironment();
      log.info({ address: target.options.address, namespace: target.namespace }, 'using the Temporal cluster given');
      return { target, uiUrl: null };
    }
    if (!parts.embedded) {
      // The server of an all-in-one Holdfast beside this process.
      return { target: { namespace: 'default', options: { address: `127.0.0.1:${temporal.port}` } }, uiUrl: null };
    }
    // Together with the other parts' bounds it stays below the bound of the whole stop.
    const server = await startEmbeddedTemporal({ ...temporal, log, closeTimeoutMs: 2_000 });
    undo.push(() => server.close());
    void server.exited.then((exit) => {
      if (!exit.expected) fail(new Error('the embedded Temporal server ended by itself'));
    });
    log.info({ url: server.uiUrl }, `Temporal Web UI on ${server.uiUrl}`);
    return { target: { namespace: server.namespace, options: { address: server.address } }, uiUrl: server.uiUrl };
  }

  async function startWorkerPart(target: TemporalTarget, publicUrl: string | null): Promise<void> {
    if (publicUrl === null) {
      const message = 'PORT=0 leaves the links in events unknown: set PUBLIC_URL too.';
      throw new HoldfastStartError('public-url-missing', message);
    }
    const { deliveryTaskQueue } = taskPolicyOf(config);
    installRuntime(log);
    const transports = createTransports(config);
    undo.push(() => transports.close());
    const connection = await connectWorker(target);
    undo.push(() => connection.close());
    const workers = await startWorkers({
      connection,
      namespace: target.namespace,
      payloadCodecs,
      taskQueue: config.taskQueue,
      deliveryTaskQueue,
      publishConcurrency: config.policy.publish.concurrency,
      activities: createActivities({
        transports,
        publicUrl,
        log,
        concurrencyPerCustomer: config.policy.publish.concurrencyPerCustomer,
      }),
    });
    undo.push(() => workers.stop());
    workers.ended.catch((error: unknown) => fail(error));
    log.info({ taskQueue: config.taskQueue, deliveryTaskQueue }, 'worker polling');
  }
}

function untilAborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_resolve, reject) => {
    const abort = (): void => reject(signal?.reason as Error);
    if (signal?.aborted === true) abort();
    else signal?.addEventListener('abort', abort, { once: true });
  });
}

function startErrorOfListen(error: unknown, port: number): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'EADDRINUSE') {
    return new HoldfastStartError('port-in-use', `Port ${port} (the API) is taken. Stop that program, or set PORT.`);
  }
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL') {
    return new HoldfastStartError('port-not-allowed', `Port ${port} (the API) cannot be opened: ${code}`);
  }
  return error;
}
