/** Counts the calls that a client's connection makes to Temporal, by method. */
import { InterceptingCall, type Interceptor } from '@grpc/grpc-js';
import type { Connection } from '@temporalio/client';

/** Times by name; a name that is missing is none. */
export type Counts = Readonly<Record<string, number>>;

export interface CallCounter {
  /** What was called since the last time that this was asked, as `SignalWorkflowExecution`. Repeats are not in it. */
  take(): { calls: Counts; repeats: Counts };
}

/**
 * Counts from now on. The connection hands its list of interceptors to each call, so that one added at its head sees
 * what was called, and one added at its end, behind the interceptor that repeats refused calls, what was sent.
 */
export function countCalls(connection: Connection): CallCounter {
  const { interceptors } = connection.options;
  if (interceptors === undefined) throw new Error('the connection has no list of interceptors');
  const calls = tally();
  const sent = tally();
  interceptors.unshift(calls.interceptor);
  interceptors.push(sent.interceptor);
  return {
    take: () => {
      const called = calls.take();
      return { calls: called, repeats: difference(sent.take(), called) };
    },
  };
}

function tally(): { interceptor: Interceptor; take(): Counts } {
  let counts = new Map<string, number>();
  return {
    interceptor: (options, nextCall) => {
      const method = options.method_definition.path.split('/').at(-1) ?? '';
      counts.set(method, (counts.get(method) ?? 0) + 1);
      return new InterceptingCall(nextCall(options));
    },
    take: () => {
      const taken = Object.fromEntries(counts);
      counts = new Map();
      return taken;
    },
  };
}

function difference(more: Counts, less: Counts): Counts {
  const left = Object.entries(more).map(([name, count]) => [name, count - (less[name] ?? 0)] as const);
  return Object.fromEntries(left.filter(([, count]) => count > 0));
}

/** The sum of both. */
export function plus(one: Counts, other: Counts): Counts {
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  return Object.fromEntries([...names].map((name) => [name, (one[name] ?? 0) + (other[name] ?? 0)]));
}
