import { defaultPayloadConverter } from '@temporalio/common';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { DeliveryState, TaskStatus } from '../../src/contracts/task.ts';
import type { TaskPolicy } from '../../src/contracts/workflow.ts';
import type { Scheduler } from '../../src/scheduler/scheduler.ts';
import { startHarness, type Harness } from '../support/harness.ts';
import {
  countOf,
  eventually,
  handleOf,
  historyOf,
  NEXT_YEAR,
  queued,
  running,
  scheduled,
  target,
  typesOf,
  type HistoryEvent,
} from './support.ts';

const POLICY = {
  publish: { initialSeconds: 0.1, factor: 1, maximumSeconds: 0.1, attempts: 3, timeoutSeconds: 5, totalSeconds: 60 },
} satisfies Partial<TaskPolicy>;

let holdfast: Harness;
let scheduler: Scheduler;
beforeAll(async () => {
  holdfast = await startHarness({ policy: POLICY });
  ({ scheduler } = holdfast);
});
afterEach(() => holdfast.inbox.answerWith(202));
afterAll(() => holdfast.close());

async function shownOf(taskId: string): Promise<{ status: unknown; delivery: unknown }> {
  const { searchAttributes } = await handleOf(holdfast, taskId).describe();
  return { status: searchAttributes['TaskStatus']?.[0], delivery: searchAttributes['TaskDelivery']?.[0] };
}

function summaryOf(event: HistoryEvent | undefined): unknown {
  const payload = event?.userMetadata?.summary;
  return payload ? defaultPayloadConverter.fromPayload(payload) : undefined;
}

async function detailsOf(taskId: string): Promise<string> {
  const metadata = await handleOf(holdfast, taskId).query<{ currentDetails?: string }>('__temporal_workflow_metadata');
  return metadata.currentDetails ?? '';
}

/** How a Task is brought to it, and what it shows there. */
const STATES: Record<string, { reach: () => Promise<string>; status: TaskStatus; delivery: DeliveryState }> = {
  'scheduled, not released': {
    reach: () => scheduled(holdfast, { releaseAt: NEXT_YEAR }),
    status: 'scheduled',
    delivery: 'none',
  },
  'scheduled, its publish under way': {
    reach: async () => {
      const taskId = holdfast.freshId();
      // The receiver does not answer while the test looks.
      holdfast.inbox.answerWith(() => new Promise(() => {}));
      await scheduled(holdfast, { taskId });
      await holdfast.inbox.next(taskId);
      return taskId;
    },
    status: 'scheduled',
    delivery: 'pending',
  },
  'scheduled, its publish given up': {
    reach: async () => {
      holdfast.inbox.answerWith(500);
      const taskId = await scheduled(holdfast);
      await holdfast.until(taskId, ({ delivery }) => delivery.state === 'exhausted');
      return taskId;
    },
    status: 'scheduled',
    delivery: 'exhausted',
  },
  queued: { reach: async () => (await queued(holdfast)).taskId, status: 'queued', delivery: 'published' },
  running: { reach: async () => (await running(holdfast)).taskId, status: 'running', delivery: 'consumed' },
  succeeded: {
    reach: async () => {
      const { taskId } = await running(holdfast);
      await scheduler.recordResult(target(taskId, 'r'), { success: true });
      return taskId;
    },
    status: 'succeeded',
    delivery: 'consumed',
  },
  failed: {
    reach: async () => {
      const { taskId } = await running(holdfast);
      await scheduler.recordResult(target(taskId, 'r'), { success: false });
      return taskId;
    },
    status: 'failed',
    delivery: 'consumed',
  },
  'canceled before its claim': {
    reach: async () => {
      const { taskId } = await queued(holdfast);
      await scheduler.cancel(target(taskId, 'c'), {});
      return taskId;
    },
    status: 'canceled',
    delivery: 'none',
  },
  'timed out': {
    reach: async () => {
      const { taskId } = await running(holdfast, { runTimeoutSeconds: 1 });
      await holdfast.until(taskId, ({ status }) => status === 'timed_out');
      return taskId;
    },
    status: 'timed_out',
    delivery: 'consumed',
  },
};

describe('search attributes', () => {
  test.each(Object.keys(STATES))('of a Task that is %s, by describe and by the Task itself', async (name) => {
    const state = STATES[name];
    if (state === undefined) throw new Error(name);
    const taskId = await state.reach();
    const { status, delivery } = state;
    expect(await shownOf(taskId)).toEqual({ status, delivery });
    const task = await holdfast.until(taskId, () => true);
    expect({ status: task.status, delivery: task.delivery.state }).toEqual({ status, delivery });
    await scheduler.cancel(target(taskId, 'end'), {}).catch(() => undefined);
  });

  test('that are fixed for life are set at the start', async () => {
    const parent = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
    const taskId = await scheduled(holdfast, {
      releaseAt: NEXT_YEAR,
      parentTaskId: parent,
      type: 'investigation',
      queue: 'night',
      source: { kind: 'incident', ref: 'INC-7' },
    });
    const { searchAttributes, memo } = await handleOf(holdfast, taskId).describe();
    const task = await holdfast.until(taskId, () => true);
    expect(searchAttributes).toMatchObject({
      TaskStatus: ['scheduled'],
      TaskDelivery: ['none'],
      TaskType: ['investigation'],
      TaskCustomer: ['local'],
      TaskQueueName: ['night'],
      TaskRoot: [parent],
      TaskParent: [parent],
      TaskSource: ['incident:INC-7'],
      TaskReleaseAt: [new Date(NEXT_YEAR)],
      TaskCreatedAt: [new Date(task.createdAt)],
    });
    expect(memo).toMatchObject({ createdAt: task.createdAt });
    // A root without a source has neither of these.
    const { searchAttributes: ofRoot } = await handleOf(holdfast, parent).describe();
    expect(ofRoot).not.toHaveProperty('TaskParent');
    expect(ofRoot).not.toHaveProperty('TaskSource');
    expect(ofRoot).toMatchObject({ TaskRoot: [parent] });
    for (const id of [taskId, parent]) await scheduler.cancel(target(id, 'end'), {});
  });

  test('list a Task by its status, a closed one too, and no longer by what it was', async () => {
    const { taskId } = await running(holdfast);
    const counted = async (status: TaskStatus): Promise<number> => {
      const query = `TaskStatus = "${status}" AND WorkflowId = "${holdfast.workflowId(taskId)}"`;
      return (await holdfast.client.workflow.count(query)).count;
    };
    await eventually(
      () => counted('running'),
      (count) => count === 1,
    );
    await scheduler.recordResult(target(taskId, 'r'), { success: true });
    await eventually(
      () => counted('succeeded'),
      (count) => count === 1,
    );
    expect(await counted('running')).toBe(0);
    expect(await counted('queued')).toBe(0);
  });

  test('list what was given up, for an operator to find', async () => {
    holdfast.inbox.answerWith(500);
    const taskId = await scheduled(holdfast);
    await holdfast.until(taskId, ({ delivery }) => delivery.state === 'exhausted');
    const query = `TaskDelivery = "exhausted" AND WorkflowId = "${holdfast.workflowId(taskId)}"`;
    const listed = (): Promise<number> => holdfast.client.workflow.count(query).then(({ count }) => count);
    expect(await eventually(listed, (count) => count > 0)).toBe(1);
    await scheduler.cancel(target(taskId, 'end'), {});
    expect(await eventually(listed, (count) => count === 0)).toBe(0);
  });
});

describe('in the Web UI', () => {
  test('the static summary names the Task', async () => {
    const taskId = await scheduled(holdfast, { releaseAt: NEXT_YEAR, type: 'investigation' });
    expect(await (await handleOf(holdfast, taskId).describe()).staticSummary()).toBe(`investigation ${taskId}`);
    await scheduler.cancel(target(taskId, 'end'), {});
  });

  test('the current details follow the Task', async () => {
    const parent = await scheduled(holdfast, { releaseAt: NEXT_YEAR });
    const before = await detailsOf(parent);
    expect(before).toContain('| Status | **scheduled** (revision 1) |');
    expect(before).toContain('| Delivery event | none yet |');
    expect(before).toContain(`| Next alarm | released at ${NEXT_YEAR} |`);
    const { taskId, token, claimed } = await running(holdfast, { parentTaskId: parent });
    await scheduler.sendMessage(target(taskId, 'm'), { body: 'secret text' });
    const details = await detailsOf(taskId);
    expect(details).toContain('| Status | **running** (revision');
    expect(details).toContain(`| Delivery event | ${token} |`);
    expect(details).toContain(`| Next alarm | run-timer at ${claimed.timeoutAt ?? ''} |`);
    expect(details).toContain('| Mailbox | 1 unread of 1 |');
    expect(details).toContain(`| Parent | ${parent} |`);
    expect(details).not.toContain('secret text');
    for (const id of [taskId, parent]) await scheduler.cancel(target(id, 'end'), {});
  });

  test('timers and the publish say what they are for', async () => {
    const taskId = await scheduled(holdfast, { delaySeconds: 1 });
    const { id: token } = await holdfast.inbox.next(taskId);
    await holdfast.until(taskId, ({ status }) => status === 'queued');
    await scheduler.claim(target(taskId, 'c'), { deliveryEventId: token });
    await scheduler.recordResult(target(taskId, 'r'), { success: true });
    const events = await historyOf(holdfast, taskId);
    const timers = events.filter(({ timerStartedEventAttributes }) => timerStartedEventAttributes);
    expect(timers.map(summaryOf)).toEqual([
      'scheduled release',
      'redelivery when still unclaimed',
      'end of the run window',
    ]);
    const publishes = events.filter(({ activityTaskScheduledEventAttributes }) => activityTaskScheduledEventAttributes);
    expect(publishes.map(summaryOf)).toEqual(['task.ready to queue default, round 1']);
  });
});

describe('what a Task costs', () => {
  // Measured; an upper bound, so that nobody adds an event or a workflow task unseen. Raise it only with a reason.
  const EVENTS_MAX = 25;
  const WORKFLOW_TASKS_MAX = 4;

  test('an immediate Task: scheduled, queued, claimed, succeeded', async () => {
    const { taskId, token } = await queued(holdfast);
    await scheduler.claim(target(taskId, 'c'), { deliveryEventId: token });
    await scheduler.recordResult(target(taskId, 'r'), { success: true, claimId: 'c' });
    const events = await historyOf(holdfast, taskId);
    const types = typesOf(events);
    expect(types.at(-1)).toBe('WORKFLOW_EXECUTION_COMPLETED');
    expect(types.length).toBeLessThanOrEqual(EVENTS_MAX);
    expect(countOf(events, 'WORKFLOW_TASK_COMPLETED')).toBeLessThanOrEqual(WORKFLOW_TASKS_MAX);
    expect(countOf(events, 'WORKFLOW_TASK_STARTED')).toBe(countOf(events, 'WORKFLOW_TASK_COMPLETED'));
  });

  test('reading it costs nothing', async () => {
    const { taskId } = await running(holdfast);
    const before = (await historyOf(holdfast, taskId)).length;
    await holdfast.until(taskId, () => true);
    await scheduler.stopCheck('local', taskId);
    await scheduler.messages('local', taskId, { after: 0, limit: 10 });
    expect(await historyOf(holdfast, taskId)).toHaveLength(before);
    await scheduler.cancel(target(taskId, 'end'), {});
  });

  test('a refused claim costs its signal and one workflow task', async () => {
    const { taskId, token } = await running(holdfast);
    const before = typesOf(await historyOf(holdfast, taskId));
    await expect(scheduler.claim(target(taskId, 'second'), { deliveryEventId: token })).rejects.toMatchObject({
      code: 'token-consumed',
    });
    expect(typesOf(await historyOf(holdfast, taskId)).slice(before.length)).toEqual([
      'WORKFLOW_EXECUTION_SIGNALED',
      'WORKFLOW_TASK_SCHEDULED',
      'WORKFLOW_TASK_STARTED',
      'WORKFLOW_TASK_COMPLETED',
    ]);
    await scheduler.cancel(target(taskId, 'end'), {});
  });
});
