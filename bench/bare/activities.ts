import { request } from 'undici';
import type { PublishOutcome, TaskReady } from '../../src/contracts/task-ready.ts';

/** Of Holdfast's own name and answer, so that the same start of workers takes it. */
export interface BareActivities {
  publishReady(ready: Pick<TaskReady, 'taskId' | 'deliveryEventId'>): Promise<PublishOutcome>;
}

export function createBareActivities(url: string): BareActivities {
  return {
    publishReady: async ({ taskId, deliveryEventId }) => {
      const body = JSON.stringify({ subject: taskId, id: deliveryEventId });
      const { statusCode, body: answer } = await request(url, { method: 'POST', body });
      await answer.dump();
      if (statusCode !== 202) throw new Error(`the receiver answered ${statusCode}`);
      return { attempts: 1 };
    },
  };
}
