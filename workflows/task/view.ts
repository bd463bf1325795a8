/** The Task as the API shows it, computed from its record: pure, and the same for a live, a closed and a new Task. */
import type { TaskRecord, TaskView } from '../../src/contracts/task.ts';
import { nextAlarm } from './lifecycle.ts';

/** Flattens a record (design: "Task fields"). Claim ids, command keys and fingerprints stay inside. */
export function viewOf(record: TaskRecord): TaskView {
  const { spec, phase, delivery, mailbox } = record;
  const claim = 'claim' in phase ? phase.claim : null;
  const alarm = nextAlarm(record);
  return {
    taskId: spec.taskId,
    customerId: spec.customerId,
    type: spec.type,
    queue: spec.queue,
    priority: spec.priority,
    status: phase.status,
    revision: record.revision,
    input: spec.input,
    source: spec.source,
    labels: spec.labels,
    lineage: spec.lineage,
    continuesTaskId: spec.continuesTaskId,
    createdAt: spec.createdAt,
    releaseAt: spec.releaseAt,
    queuedAt: 'queuedAt' in phase ? phase.queuedAt : null,
    startedAt: 'startedAt' in phase ? phase.startedAt : null,
    completedAt: 'completedAt' in phase ? phase.completedAt : null,
    runTimeoutSeconds: spec.runTimeoutSeconds,
    timeoutAt: 'timeoutAt' in phase ? phase.timeoutAt : null,
    nextAlarmAt: alarm?.at ?? null,
    delivery: {
      eventId: delivery.eventId,
      state: delivery.state,
      publishedAt: delivery.publishedAt,
      attempts: delivery.attempts,
      nextAttemptAt: delivery.state === 'published' ? delivery.redeliverAt : null,
      lastError: delivery.lastError,
    },
    claim:
      claim === null
        ? null
        : { deliveryEventId: claim.deliveryEventId, executorId: claim.executorId, claimedAt: claim.claimedAt },
    mailbox: { lastSeq: mailbox.lastSeq, readSeq: mailbox.readSeq, unread: mailbox.messages.length },
    admission: record.admission,
    cancellation: 'cancellation' in phase ? phase.cancellation : null,
    result: 'result' in phase ? phase.result : null,
    transitions: record.transitions,
  };
}
