/** What the tests of the Task's workflow share: Tasks brought to a status, codes of refusals, and what a history says. */
import type { WorkflowHandle } from '@temporalio/client';
import proto from '@temporalio/proto';
import type { temporal } from '@temporalio/proto';
import { HoldfastError, type ErrorCode } from '../../src/contracts/errors.ts';
import type { Json } from '../../src/contracts/json.ts';
import type { TaskView } from '../../src/contracts/task.ts';
import type { CommandTarget, Scheduler } from '../../src/scheduler/scheduler.ts';
import { CUSTOMER, type Harness } from '../support/harness.ts';

type ScheduleRequest = Parameters<Scheduler['schedule']>[1];

export type HistoryEvent = temporal.api.history.v1.IHistoryEvent;

const { EventType } = proto.temporal.api.enums.v1;

/** A command's target under a key that may come again. */
export function target(taskId: string, key: string): CommandTarget {
  return { customerId: CUSTOMER, taskId, key, keyIsFresh: false };
}

/** A moment that no test reaches on a real clock. */
export const NEXT_YEAR = new Date(Date.now() + 365 * 24 * 3600 * 1000).toISOString();

/** Schedules a Task under a fresh id, which it returns. */
export async function scheduled(holdfast: Harness, request: Partial<ScheduleRequest> = {}): Promise<string> {
  const taskId = request.taskId ?? holdfast.freshId();
  await holdfast.scheduler.schedule(CUSTOMER, { type: 'test', ...request, taskId }, `schedule-${taskId}`);
  return taskId;
}

/** A Task that is queued, with its token. */
export async function queued(
  holdfast: Harness,
  request: Partial<ScheduleRequest> = {},
): Promise<{ taskId: string; token: string }> {
  const taskId = await scheduled(holdfast, request);
  const { id: token } = await holdfast.inbox.next(taskId);
  await holdfast.until(taskId, ({ status }) => status === 'queued');
  return { taskId, token };
}

/** A Task that is running under the claim id `winner`. */
export async function running(
  holdfast: Harness,
  request: Partial<ScheduleRequest> = {},
): Promise<{ taskId: string; token: string; claimed: TaskView }> {
  const task = await queued(holdfast, request);
  const claimed = await holdfast.scheduler.claim(target(task.taskId, 'winner'), { deliveryEventId: task.token });
  return { ...task, claimed };
}

/** The code that the attempt was refused with; rejects when it was accepted. */
export async function refusal(attempt: Promise<unknown>): Promise<ErrorCode> {
  let accepted: unknown;
  try {
    accepted = await attempt;
  } catch (error) {
    if (error instanceof HoldfastError) return error.code;
    throw error;
  }
  throw new Error(`accepted: ${JSON.stringify(accepted)}`);
}

/** What a caller is told to do with a verdict that cannot be had now: repeat with the same key. */
export async function insist<Answer>(attempt: () => Promise<Answer>): Promise<Answer> {
  for (let round = 1; ; round += 1) {
    try {
      return await attempt();
    } catch (error) {
      const repeatable =
        error instanceof HoldfastError && ['too-many-undecided', 'verdict-unavailable'].includes(error.code);
      if (!repeatable || round === 20) throw error;
    }
  }
}

/** The whole Task; fails when Temporal alone answered. */
export async function wholeTask(scheduler: Scheduler, taskId: string): Promise<TaskView> {
  const task = await scheduler.get(CUSTOMER, taskId);
  if ('asOf' in task) throw new Error(`no worker answered for ${taskId}`);
  return task;
}

/** All unread messages' bodies, page by page. */
export async function mailbox(scheduler: Scheduler, taskId: string): Promise<{ seq: number; body: Json }[]> {
  const all: { seq: number; body: Json }[] = [];
  for (;;) {
    const { messages } = await scheduler.messages(CUSTOMER, taskId, { after: all.at(-1)?.seq ?? 0, limit: 30 });
    if (messages.length === 0) return all;
    all.push(...messages.map(({ seq, body }) => ({ seq, body })));
  }
}

export function handleOf(holdfast: Harness, taskId: string, runId?: string): WorkflowHandle {
  return holdfast.client.workflow.getHandle(holdfast.workflowId(taskId), runId);
}

/** The history of the newest run, or of the one named. */
export async function historyOf(holdfast: Harness, taskId: string, runId?: string): Promise<HistoryEvent[]> {
  return (await handleOf(holdfast, taskId, runId).fetchHistory()).events ?? [];
}

/** Names of the events, as `WORKFLOW_TASK_FAILED`. */
export function typesOf(events: HistoryEvent[]): string[] {
  return events.map(({ eventType }) => String(EventType[eventType ?? 0]).replace('EVENT_TYPE_', ''));
}

export function countOf(events: HistoryEvent[], type: string): number {
  return typesOf(events).filter((each) => each === type).length;
}

/** The histories of all runs of a Task, first run first. */
export async function runsOf(holdfast: Harness, taskId: string): Promise<HistoryEvent[][]> {
  const runs: HistoryEvent[][] = [];
  let runId: string | undefined;
  do {
    const events = await historyOf(holdfast, taskId, runId);
    runs.unshift(events);
    runId = events[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ?? '';
  } while (runId !== '');
  return runs;
}

/** Waits for something that cannot tell by itself when it has come; rejects after a bound. */
export async function eventually<Value>(
  look: () => Promise<Value>,
  accept: (value: Value) => boolean,
  options: { rounds?: number } = {},
): Promise<Value> {
  const { rounds = 300 } = options;
  for (let round = 1; ; round += 1) {
    const value = await look();
    if (accept(value)) return value;
    if (round === rounds) throw new Error(`it did not come: ${JSON.stringify(value)}`);
    await new Promise((resolve) => {
      setTimeout(resolve, 100);
    });
  }
}
