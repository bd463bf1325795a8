/** The record of a Task whose workflow has closed, however it closed. */
import { instantOf } from '../contracts/instant.ts';
import type { TaskRecord, TransitionCause } from '../contracts/task.ts';
import type { ClosedWorkflow } from './gateway.ts';

/**
 * A Task's workflow completes with its record. One that an operator terminated has none, and reads as canceled; one
 * that Temporal ended (a history that outgrew its limits, a workflow that failed) reads as canceled too, and its reason
 * says that Holdfast failed. What happened between the start of the last run and that end is not in the record.
 */
export function recordOfClosed(closed: ClosedWorkflow): TaskRecord {
  if (closed.how === 'completed') return closed.record;
  const { record, closedAt, how, by } = closed;
  const { phase } = record;
  const at = instantOf(closedAt.getTime());
  const revision = record.revision + 1;
  const detail = closed.reason === '' ? '' : `: ${closed.reason.slice(0, 512)}`;
  const reason =
    how === 'terminated' ? `terminated by operator${detail}` : `Holdfast's own failure, ended by ${by}${detail}`;
  const cause: TransitionCause = how === 'terminated' ? 'terminated-by-operator' : 'ended-by-temporal';
  return {
    ...record,
    revision,
    phase: {
      status: 'canceled',
      queuedAt: 'queuedAt' in phase ? phase.queuedAt : null,
      startedAt: 'startedAt' in phase ? phase.startedAt : null,
      claim: 'claim' in phase ? phase.claim : null,
      completedAt: at,
      cancellation: { reason, by: 'temporal' },
      command: null,
    },
    transitions: [...record.transitions, { revision, at, from: phase.status, to: 'canceled', cause }],
  };
}
