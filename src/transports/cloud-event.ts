import type { Instant } from '../contracts/instant.ts';
import { TASK_READY_TYPE, type TaskReady, type TaskReadyCloudEvent } from '../contracts/task-ready.ts';

/**
 * The event of a ready Task. Its id is the delivery event id, so every attempt and every round carries the same one.
 * Under 20 kB for all that `LIMITS` admits and a public URL of 1,024 characters.
 */
export function cloudEventOf(ready: TaskReady, options: { publicUrl: string; time: Instant }): TaskReadyCloudEvent {
  const taskId = encodeURIComponent(ready.taskId);
  return {
    specversion: '1.0',
    id: ready.deliveryEventId,
    type: TASK_READY_TYPE,
    source: `/v1/customers/${encodeURIComponent(ready.customerId)}/tasks/${taskId}`,
    subject: ready.taskId,
    time: options.time,
    datacontenttype: 'application/json',
    data: { ...ready, claimUrl: `${options.publicUrl}/v1/tasks/${taskId}/claim` },
  };
}
