/**
 * What one immediate Task costs Temporal, held to the number: history events, workflow tasks and the client's calls are
 * what limits how many Tasks a server bears (docs/performance.md). Equal, not at most: who lowers one lowers it here, and
 * nobody adds one unseen.
 */
import type { Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { countCalls, type CallCounter, type Counts } from '../../bench/call-counter.ts';
import { historyCountsOf, type HistoryCounts } from '../../bench/history-counts.ts';
import { CUSTOMER, startHarness, type Harness } from '../support/harness.ts';
import { handleOf, target } from './support.ts';

const EVENTS = {
  WORKFLOW_EXECUTION_STARTED: 1,
  // The publish, and that alone: its outcome, the claim and the result take a turn of the worker each.
  ACTIVITY_TASK_SCHEDULED: 1,
  ACTIVITY_TASK_STARTED: 1,
  ACTIVITY_TASK_COMPLETED: 1,
  // Redelivery, armed when published and cancelled by the claim; the run window, which ends with the run.
  TIMER_STARTED: 2,
  TIMER_CANCELED: 1,
  // The claim, the result.
  WORKFLOW_EXECUTION_SIGNALED: 2,
  // Published, claimed, ended. None in the first workflow task: the start has set what it would set.
  UPSERT_WORKFLOW_SEARCH_ATTRIBUTES: 3,
  // Started, published, claimed, ended: one turn each, and each is three events.
  WORKFLOW_TASK_SCHEDULED: 4,
  WORKFLOW_TASK_STARTED: 4,
  WORKFLOW_TASK_COMPLETED: 4,
  WORKFLOW_EXECUTION_COMPLETED: 1,
} as const satisfies Counts;

const HISTORY: HistoryCounts = { events: 25, workflowTasks: 4, byType: EVENTS };

/** The client's calls of each step. A command is a signal, a verdict is a query. */
const CALLS = {
  schedule: { StartWorkflowExecution: 1 },
  claim: { SignalWorkflowExecution: 1, QueryWorkflow: 1 },
  message: { SignalWorkflowExecution: 1, QueryWorkflow: 1 },
  result: { SignalWorkflowExecution: 1, QueryWorkflow: 1 },
} as const satisfies Record<string, Counts>;

/** A query that finds the Task closed is refused, and its verdict read from the close event: the slower of two ways. */
const RESULT_CALLS_WHEN_CLOSED: Counts = { ...CALLS.result, GetWorkflowExecutionHistory: 1 };

/** One more signal: itself and a turn of the worker. */
const EVENTS_OF_A_MESSAGE = 4;

let holdfast: Harness;
let counter: CallCounter;
beforeAll(async () => {
  holdfast = await startHarness();
  counter = countCalls(holdfast.client.connection as Connection);
});
afterAll(() => holdfast.close());

/** The calls that a step makes; those of the waiting before and after it are not in it. */
async function callsOf(step: () => Promise<unknown>): Promise<Counts> {
  counter.take();
  await step();
  return counter.take().calls;
}

interface Cost {
  calls: Record<keyof typeof CALLS, Counts>;
  history: HistoryCounts;
}

/**
 * Each step begins when the one before has ended in Temporal too. A claim that came before `published` was recorded
 * would spare the redelivery timer and an upsert, and could share a workflow task: it costs less, and a race decides.
 */
async function costOf({ messages }: { messages: number }): Promise<Cost> {
  const { scheduler, inbox } = holdfast;
  const taskId = holdfast.freshId('counted');
  const schedule = await callsOf(() => scheduler.schedule(CUSTOMER, { taskId, type: 'test' }, taskId));
  const { id: deliveryEventId } = await inbox.next(taskId);
  await holdfast.until(taskId, ({ status }) => status === 'queued');
  const claim = await callsOf(() => scheduler.claim(target(taskId, 'claim'), { deliveryEventId }));
  const message = await callsOf(async () => {
    for (let n = 1; n <= messages; n += 1) await scheduler.sendMessage(target(taskId, `message-${n}`), { body: n });
  });
  const success = { success: true, claimId: 'claim' };
  const result = await callsOf(() => scheduler.recordResult(target(taskId, 'result'), success));
  await handleOf(holdfast, taskId).result();
  return { calls: { schedule, claim, message, result }, history: await historyCountsOf(handleOf(holdfast, taskId)) };
}

test('an immediate Task costs these events, workflow tasks and calls, and no more', async () => {
  const { calls, history } = await costOf({ messages: 0 });
  expect(history).toEqual(HISTORY);
  expect(calls).toEqual({ schedule: CALLS.schedule, claim: CALLS.claim, message: {}, result: expect.anything() });
  expect([CALLS.result, RESULT_CALLS_WHEN_CLOSED]).toContainEqual(calls.result);
});

test('one signal more is seen in each of them', async () => {
  const { calls, history } = await costOf({ messages: 1 });
  expect(history.events).toBe(HISTORY.events + EVENTS_OF_A_MESSAGE);
  expect(history.workflowTasks).toBe(HISTORY.workflowTasks + 1);
  expect(history.byType).toEqual({
    ...EVENTS,
    WORKFLOW_EXECUTION_SIGNALED: EVENTS.WORKFLOW_EXECUTION_SIGNALED + 1,
    WORKFLOW_TASK_SCHEDULED: EVENTS.WORKFLOW_TASK_SCHEDULED + 1,
    WORKFLOW_TASK_STARTED: EVENTS.WORKFLOW_TASK_STARTED + 1,
    WORKFLOW_TASK_COMPLETED: EVENTS.WORKFLOW_TASK_COMPLETED + 1,
  });
  expect(calls.message).toEqual(CALLS.message);
});

test('the numbers add up: the events by type are all events', () => {
  expect(Object.values(EVENTS).reduce((sum, count) => sum + count, 0)).toBe(HISTORY.events);
});
