/**
 * Holdfast on the suite's real Temporal server: workers on task queues of their own, the scheduler, the facade's app
 * and a webhook receiver. One for a test file; tests keep apart by their Task ids.
 */
import { randomUUID } from 'node:crypto';
import type { Client, Connection } from '@temporalio/client';
import type { PayloadCodec } from '@temporalio/common';
import { NativeConnection } from '@temporalio/worker';
import type { Express } from 'express';
import { pino } from 'pino';
import { inject } from 'vitest';
import { createActivities } from '../../activities/index.ts';
import { loadConfig, taskPolicyOf } from '../../src/config/index.ts';
import type { TaskView } from '../../src/contracts/task.ts';
import type { TaskPolicy } from '../../src/contracts/workflow.ts';
import type { KeyRing } from '../../src/credentials/key-ring.ts';
import { createApp } from '../../src/facade/app.ts';
import { Gateway } from '../../src/scheduler/gateway.ts';
import { workflowIdOf } from '../../src/scheduler/identity.ts';
import { Scheduler } from '../../src/scheduler/scheduler.ts';
import { ServerClock } from '../../src/scheduler/server-clock.ts';
import { clientOf, connectClient } from '../../src/temporal/connection.ts';
import { installRuntime, startWorkers, type Workers } from '../../src/temporal/worker.ts';
import { createTransports } from '../../src/transports/index.ts';
import { startReadyInbox, type ReadyInbox } from './ready-inbox.ts';

export const CUSTOMER = 'local';

export interface Harness {
  scheduler: Scheduler;
  gateway: Gateway;
  app: Express;
  inbox: ReadyInbox;
  client: Client;
  policy: TaskPolicy;
  taskQueue: string;
  /** A Task id that no other test uses. */
  freshId(prefix?: string): string;
  workflowId(taskId: string): string;
  /** The Task once it satisfies the predicate; rejects after a bound, saying what it last was. */
  until(taskId: string, predicate: (task: TaskView) => boolean): Promise<TaskView>;
  startWorkers(): Promise<void>;
  stopWorkers(): Promise<void>;
  close(): Promise<void>;
}

export interface HarnessOptions {
  policy?: Partial<TaskPolicy>;
  /** API keys; without, one local caller with every scope. */
  keyRing?: KeyRing;
  payloadCodecs?: PayloadCodec[];
  /** Start without workers. */
  workers?: boolean;
  /** A server other than the suite's (time skipping). */
  server?: { address: string; connection: NativeConnection; client: Connection; now: () => number };
}

/** The SDK's runtime is one for the process, and takes its log before the first worker. */
let runtimeInstalled = false;

/** To be called before anything else of the SDK's worker is made, a time-skipping server among it. */
export function ensureRuntime(log = pino({ level: process.env['TEST_LOG_LEVEL'] ?? 'silent' })): void {
  if (!runtimeInstalled) installRuntime(log);
  runtimeInstalled = true;
}

const UNTIL_MS = 30_000;
const UNTIL_ROUND_MS = 50;

export async function startHarness(options: HarnessOptions = {}): Promise<Harness> {
  const log = pino({ level: process.env['TEST_LOG_LEVEL'] ?? 'silent' });
  ensureRuntime(log);
  const taskQueue = `test-${randomUUID()}`;
  const config = loadConfig({ env: { HOLDFAST_TASK_QUEUE: taskQueue }, cwd: '/' });
  const policy: TaskPolicy = { ...taskPolicyOf(config), ...options.policy };
  const namespace = 'default';
  const { payloadCodecs = [] } = options;
  const address = options.server?.address ?? inject('temporalAddress');
  const connection = options.server?.client ?? (await connectClient({ namespace, options: { address } }));
  const native = options.server?.connection ?? (await NativeConnection.connect({ address }));
  const client = clientOf(connection, { namespace, payloadCodecs });
  const gateway = new Gateway({ client, taskQueue });
  const { runTimeoutSeconds } = config.policy;
  const scheduler = new Scheduler({
    gateway,
    clock: new ServerClock(options.server?.now ?? Date.now, log),
    log,
    policy,
    runTimeoutSeconds,
    runTimeoutSecondsMax: 400 * 24 * 3600,
  });
  const inbox = await startReadyInbox();
  const route = { transport: 'webhook', url: inbox.url, secret: null, allowPrivate: true } as const;
  const transports = createTransports({ routes: { default: route } });

  let workers: Workers | null = null;
  const harness: Harness = {
    scheduler,
    gateway,
    app: createApp({ scheduler, log, keyRing: options.keyRing ?? null }),
    inbox,
    client,
    policy,
    taskQueue,
    freshId: (prefix = 't') => `${prefix}-${randomUUID()}`,
    workflowId: (taskId) => workflowIdOf(CUSTOMER, taskId),
    until: async (taskId, predicate) => {
      const end = Date.now() + UNTIL_MS;
      for (;;) {
        const task = await scheduler.get(CUSTOMER, taskId);
        if (!('asOf' in task) && predicate(task)) return task;
        if (Date.now() > end) throw new Error(`${taskId} did not get there: ${JSON.stringify(task)}`);
        await new Promise((resolve) => {
          setTimeout(resolve, UNTIL_ROUND_MS);
        });
      }
    },
    startWorkers: async () => {
      workers ??= await startWorkers({
        connection: native,
        namespace,
        payloadCodecs,
        taskQueue,
        deliveryTaskQueue: policy.deliveryTaskQueue,
        publishConcurrency: 50,
        workflowBundle: { codePath: inject('workflowBundlePath') },
        activities: createActivities({ transports, publicUrl: 'http://127.0.0.1:1', log, concurrencyPerCustomer: 10 }),
      });
    },
    stopWorkers: async () => {
      await workers?.stop();
      workers = null;
    },
    close: async () => {
      await harness.stopWorkers();
      await transports.close();
      await inbox.close();
      if (options.server !== undefined) return;
      await native.close();
      await connection.close();
    },
  };
  if (options.workers !== false) await harness.startWorkers();
  return harness;
}
