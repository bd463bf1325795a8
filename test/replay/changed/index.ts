/** Workflow code that is not what the histories were recorded with: their replay must tell. */
import { proxyActivities } from '@temporalio/workflow';
import type { TaskRecord } from '../../../src/contracts/task.ts';
import type { TaskWorkflowInput } from '../../../src/contracts/workflow.ts';
import { task as original } from '../../../workflows/index.ts';

const { announce } = proxyActivities<{ announce(): Promise<void> }>({ startToCloseTimeout: '1 second' });

/** Does one thing more, and first: any history lacks it. (A timer would pass for the release timer of a Task that has one.) */
export async function task(input: TaskWorkflowInput): Promise<TaskRecord> {
  await announce();
  return original(input);
}

/** Takes the same steps to another result, which Temporal's own comparison of steps does not see. */
export async function taskWithOtherResult(input: TaskWorkflowInput): Promise<TaskRecord> {
  const record = await original(input);
  return { ...record, revision: record.revision + 1 };
}
