/** Holdfast as the bench runs it: the defaults, on task queues of its own. */
import type { Connection } from '@temporalio/client';
import type { Logger } from 'pino';
import { loadConfig, taskPolicyOf, type Config } from '../src/config/index.ts';
import { Gateway } from '../src/scheduler/gateway.ts';
import { Scheduler } from '../src/scheduler/scheduler.ts';
import { ServerClock } from '../src/scheduler/server-clock.ts';
import { clientOf } from '../src/temporal/connection.ts';

export const TASK_QUEUE = { bare: 'bench-bare', holdfast: 'bench-holdfast' } as const;
export const NAMESPACE = 'default';

/** Without the file and the environment of whoever runs the bench. */
export function benchConfig(): Config {
  return loadConfig({ env: { HOLDFAST_TASK_QUEUE: TASK_QUEUE.holdfast }, cwd: '/' });
}

export function createScheduler(connection: Connection, log: Logger): Scheduler {
  const config = benchConfig();
  const { runTimeoutSeconds, runTimeoutSecondsMax } = config.policy;
  return new Scheduler({
    gateway: new Gateway({ client: clientOf(connection, { namespace: NAMESPACE }), taskQueue: config.taskQueue }),
    clock: new ServerClock(Date.now, log),
    log,
    policy: taskPolicyOf(config),
    runTimeoutSeconds,
    runTimeoutSecondsMax,
  });
}
