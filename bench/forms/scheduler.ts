/** Holdfast's scheduler layer, in the caller's own process: no HTTP. */
import { pino } from 'pino';
import { workflowIdOf } from '../../src/scheduler/identity.ts';
import { connectClient } from '../../src/temporal/connection.ts';
import { countCalls } from '../call-counter.ts';
import { createScheduler, NAMESPACE } from '../holdfast.ts';
import type { Child } from '../processes/child.ts';
import { thisProcess } from '../processes/measured.ts';
import type { ChildInput } from '../processes/protocol.ts';
import { CUSTOMER, type Form } from './form.ts';

/** `worker` is shared with the HTTP form, and closed by whoever started it. */
export async function startScheduler({ temporalAddress }: ChildInput, worker: Child): Promise<Form> {
  const connection = await connectClient({ namespace: NAMESPACE, options: { address: temporalAddress } });
  const counter = countCalls(connection);
  const scheduler = createScheduler(connection, pino({ level: 'error' }));
  const target = (taskId: string, key: string) => ({ customerId: CUSTOMER, taskId, key, keyIsFresh: false });

  return {
    name: 'scheduler',
    schedule: async (taskId) => {
      await scheduler.schedule(CUSTOMER, { taskId, type: 'bench' }, `schedule-${taskId}`);
    },
    // A command that was not accepted throws.
    claim: async (taskId, deliveryEventId) => {
      await scheduler.claim(target(taskId, `claim-${taskId}`), { deliveryEventId });
    },
    recordResult: async (taskId) => {
      await scheduler.recordResult(target(taskId, `result-${taskId}`), { success: true, claimId: `claim-${taskId}` });
    },
    workflowIdOf: (taskId) => workflowIdOf(CUSTOMER, taskId),
    processes: { worker, caller: thisProcess },
    takeCalls: async () => counter.take(),
    close: () => connection.close(),
  };
}
