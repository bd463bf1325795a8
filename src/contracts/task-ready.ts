import type { Instant } from './instant.ts';
import type { Lineage, Source } from './task.ts';

/** The event that a Task may be claimed: at least once, never proof of ownership (specification: "Ready delivery"). */
export const TASK_READY_TYPE = 'holdfast.task.ready';

/** What the publishing activity is handed. Thin: no input of the Task. */
export interface TaskReady {
  taskId: string;
  customerId: string;
  type: string;
  queue: string;
  priority: number;
  /** The claim token. */
  deliveryEventId: string;
  lineage: Lineage;
  source: Source | null;
  releaseAt: Instant;
}

/** CloudEvents 1.0, structured JSON mode: `id` is the delivery event id and so the claim token. */
export interface TaskReadyCloudEvent {
  specversion: '1.0';
  id: string;
  type: typeof TASK_READY_TYPE;
  source: string;
  subject: string;
  time: Instant;
  datacontenttype: 'application/json';
  data: TaskReady & { claimUrl: string };
}

/** What a publish returns: Temporal forgets the count when the activity ends. */
export interface PublishOutcome {
  attempts: number;
}
