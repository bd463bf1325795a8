/** The two search attributes that change during a Task's life: pure, shared by the starter and the workflow. */
import type { DeliveryState, TaskRecord, TaskStatus } from '../../src/contracts/task.ts';

export interface ChangingAttributes {
  status: TaskStatus;
  delivery: DeliveryState;
}

/** What they should be for a record. */
export function changingAttributes(record: TaskRecord): ChangingAttributes {
  return { status: record.phase.status, delivery: record.delivery.state };
}

/**
 * What the starter of a run sets. A new Task that is due at once is listed with its delivery `pending` from the start:
 * its start is durable and owes that delivery, and its first workflow task is spared an upsert.
 */
export function attributesAtStart(record: TaskRecord): ChangingAttributes {
  const isNew = record.revision === 1;
  const { releaseAt, createdAt } = record.spec;
  return isNew && releaseAt <= createdAt ? { status: 'scheduled', delivery: 'pending' } : changingAttributes(record);
}
