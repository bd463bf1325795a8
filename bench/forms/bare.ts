/** Plain calls of Temporal's SDK on the bare workflow, over a connection with Holdfast's settings. */
import { Client, QueryRejectedError } from '@temporalio/client';
import { connectClient } from '../../src/temporal/connection.ts';
import {
  BARE_WORKFLOW_TYPE,
  deliveryTaskQueueOf,
  VERDICT_QUERY,
  type BareInput,
  type BareRecord,
  type ClaimSignal,
  type ResultSignal,
} from '../bare/words.ts';
import { countCalls } from '../call-counter.ts';
import { NAMESPACE, TASK_QUEUE } from '../holdfast.ts';
import { startChild } from '../processes/child.ts';
import { thisProcess } from '../processes/measured.ts';
import type { ChildInput } from '../processes/protocol.ts';
import type { Form } from './form.ts';

export async function startBare(input: ChildInput): Promise<Form> {
  const connection = await connectClient({ namespace: NAMESPACE, options: { address: input.temporalAddress } });
  const counter = countCalls(connection);
  // As Holdfast: a query that finds the workflow closed would replay it, which is slower than to read how it ended.
  const client = new Client({ connection, namespace: NAMESPACE, workflow: { queryRejectCondition: 'NOT_OPEN' } });
  const worker = await startChild('bare-worker', input);
  const workflowIdOf = (taskId: string): string => `bare:${taskId}`;

  async function command(taskId: string, signal: 'claim' | 'result', payload: ClaimSignal | ResultSignal) {
    const handle = client.workflow.getHandle(workflowIdOf(taskId));
    await handle.signal(signal, payload);
    let verdict: string | undefined;
    try {
      verdict = await handle.query<string, [string]>(VERDICT_QUERY, payload.key);
    } catch (error) {
      if (!(error instanceof QueryRejectedError)) throw error;
      verdict = ((await handle.result()) as BareRecord).verdicts[payload.key];
    }
    if (verdict !== 'accepted') throw new Error(`${signal} of ${taskId}: ${verdict ?? 'no verdict'}`);
  }

  return {
    name: 'bare',
    schedule: async (taskId) => {
      const args: [BareInput] = [{ taskId, deliveryTaskQueue: deliveryTaskQueueOf(TASK_QUEUE.bare) }];
      await client.workflow.start(BARE_WORKFLOW_TYPE, {
        workflowId: workflowIdOf(taskId),
        taskQueue: TASK_QUEUE.bare,
        args,
        workflowIdReusePolicy: 'REJECT_DUPLICATE',
        workflowTaskTimeout: '60 seconds',
      });
    },
    claim: (taskId, token) => command(taskId, 'claim', { key: `claim-${taskId}`, token }),
    recordResult: (taskId) => command(taskId, 'result', { key: `result-${taskId}`, success: true }),
    workflowIdOf,
    processes: { worker, caller: thisProcess },
    takeCalls: async () => counter.take(),
    close: async () => {
      await worker.close();
      await connection.close();
    },
  };
}
