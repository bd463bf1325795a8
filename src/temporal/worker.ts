/** The worker process's part: one Temporal worker for Tasks, one for the activities that publish. */
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PayloadCodec } from '@temporalio/common';
import { DefaultLogger, Runtime, Worker, type NativeConnection, type WorkerOptions } from '@temporalio/worker';
import type { BaseLogger } from 'pino';
import type { createActivities } from '../../activities/index.ts';

export interface WorkersOptions {
  connection: NativeConnection;
  namespace: string;
  /** Task queue of the workflows; `deliveryTaskQueue` is that of the activities. */
  taskQueue: string;
  deliveryTaskQueue: string;
  activities: ReturnType<typeof createActivities>;
  /** Publishes in flight in this process. */
  publishConcurrency: number;
  /** The same as the clients', or Tasks cannot be read. */
  payloadCodecs?: PayloadCodec[];
  /** A bundle that was made before, so that tests bundle once. */
  workflowBundle?: WorkerOptions['workflowBundle'];
}

export interface Workers {
  /** Rejects when a worker fails; resolves when both have stopped. */
  ended: Promise<void>;
  /** Lets what is under way finish, within a bound of 5 s; a publish that is cut off is retried by Temporal. */
  stop(): Promise<void>;
}

/** What the workflows' bundle is made of, beside this file's own tree: sources in development, their build elsewhere. */
export function workflowSources(): { workflowsPath: string; payloadConverterPath: string } {
  const extension = extname(fileURLToPath(import.meta.url));
  const pathOf = (name: string): string =>
    fileURLToPath(new URL(`../../workflows/${name}${extension}`, import.meta.url));
  return { workflowsPath: pathOf('index'), payloadConverterPath: pathOf('payload-converter') };
}

/**
 * Options without which workers of Tasks are not safe. Thousands of signals in one activation take longer than the
 * SDK's bound of 5 s on an isolate's turn, and going over it aborts the process; the option is not in its types.
 */
const SAFETY: Partial<WorkerOptions> = { isolateExecutionTimeout: '60s' } as Partial<WorkerOptions>;

const SHUTDOWN = { shutdownGraceTime: '3s', shutdownForceTime: '5s' } as const;

/** Sends the SDK's own log lines to ours. Once per process, before the first worker; signals stay with the mains. */
export function installRuntime(log: BaseLogger): void {
  const write = new DefaultLogger('INFO', ({ level, message, meta }) => {
    const fields = { component: 'temporal', ...meta };
    // The activity tells of its own failures, in our words and without task tokens.
    // Each worker does one thing on purpose; the SDK warns of what the other does.
    if (message === 'Activity failed' || message.startsWith('No ')) log.debug(fields, message);
    else if (level === 'ERROR') log.error(fields, message);
    else if (level === 'WARN') log.warn(fields, message);
    else log.debug(fields, message);
  });
  Runtime.install({
    logger: write,
    shutdownSignals: [],
    telemetryOptions: { logging: { forward: {}, filter: { core: 'WARN', other: 'ERROR' } } },
  });
}

/** Starts both workers; resolves when they can take work. */
export async function startWorkers(options: WorkersOptions): Promise<Workers> {
  const { connection, namespace, taskQueue, deliveryTaskQueue, activities, publishConcurrency } = options;
  const { payloadCodecs = [] } = options;
  const { workflowsPath, payloadConverterPath } = workflowSources();
  const workflows = await Worker.create({
    connection,
    namespace,
    taskQueue,
    ...(options.workflowBundle === undefined
      ? { workflowsPath, dataConverter: { payloadConverterPath, payloadCodecs } }
      : { workflowBundle: options.workflowBundle, dataConverter: { payloadCodecs } }),
    ...SHUTDOWN,
    ...SAFETY,
  });
  const publishers = await Worker.create({
    connection,
    namespace,
    taskQueue: deliveryTaskQueue,
    activities,
    dataConverter: { payloadCodecs },
    maxConcurrentActivityTaskExecutions: publishConcurrency,
    ...SHUTDOWN,
  });
  const both = [workflows, publishers];
  const runs = both.map((worker) => worker.run());
  // One that fails takes the other with it: half a worker would look alive.
  const stopAll = (): void => {
    for (const worker of both) if (worker.getState() === 'RUNNING') worker.shutdown();
  };
  const ended = Promise.all(runs).then(
    () => undefined,
    async (error: unknown) => {
      stopAll();
      await Promise.allSettled(runs);
      throw error;
    },
  );
  ended.catch(() => {
    // Reported to whoever awaits `ended`; without one it must not end the process by itself.
  });
  return {
    ended,
    stop: async () => {
      stopAll();
      await Promise.allSettled(runs);
    },
  };
}
