/** The whole of Holdfast: its HTTP API, by connections that are kept alive. */
import { Pool } from 'undici';
import { workflowIdOf } from '../../src/scheduler/identity.ts';
import { startChild, type Child } from '../processes/child.ts';
import { thisProcess } from '../processes/measured.ts';
import type { ChildInput } from '../processes/protocol.ts';
import { CUSTOMER, type Form } from './form.ts';

/** `worker` is shared with the scheduler's form, and closed by whoever started it. */
export async function startHttp(input: ChildInput, worker: Child): Promise<Form> {
  const facade = await startChild('facade', input);
  // Without a limit of its own: the bench's concurrency is the limit.
  const pool = new Pool(facade.url ?? '');

  async function post(path: string, key: string, body: object): Promise<void> {
    const { statusCode, body: answer } = await pool.request({
      method: 'POST',
      path,
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify(body),
    });
    const text = await answer.text();
    if (statusCode >= 300) throw new Error(`${path}: ${statusCode} ${text}`);
    // Whoever asks reads the answer.
    JSON.parse(text);
  }

  return {
    name: 'http',
    schedule: (taskId) => post('/v1/tasks', `schedule-${taskId}`, { taskId, type: 'bench' }),
    claim: (taskId, deliveryEventId) => post(`/v1/tasks/${taskId}/claim`, `claim-${taskId}`, { deliveryEventId }),
    recordResult: (taskId) =>
      post(`/v1/tasks/${taskId}/result`, `result-${taskId}`, { success: true, claimId: `claim-${taskId}` }),
    workflowIdOf: (taskId) => workflowIdOf(CUSTOMER, taskId),
    processes: { worker, facade, caller: thisProcess },
    takeCalls: () => facade.ask('calls'),
    close: async () => {
      await pool.close();
      await facade.close();
    },
  };
}
