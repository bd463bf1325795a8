/** What a Task cost Temporal, read from the history of its workflow: it is there for good, and noise cannot change it. */
import type { WorkflowHandle } from '@temporalio/client';
import proto from '@temporalio/proto';
import type { Counts } from './call-counter.ts';

const { EventType } = proto.temporal.api.enums.v1;

export interface HistoryCounts {
  events: number;
  /** Those that were completed: each is a turn of the worker. */
  workflowTasks: number;
  /** Events by type, as `TIMER_STARTED`. */
  byType: Counts;
}

/** Of the newest run. */
export async function historyCountsOf(handle: WorkflowHandle): Promise<HistoryCounts> {
  const { events } = await handle.fetchHistory();
  const byType: Record<string, number> = {};
  for (const { eventType } of events ?? []) {
    const type = (EventType[eventType ?? 0] ?? '').replace('EVENT_TYPE_', '');
    byType[type] = (byType[type] ?? 0) + 1;
  }
  return { events: events?.length ?? 0, workflowTasks: byType['WORKFLOW_TASK_COMPLETED'] ?? 0, byType };
}
