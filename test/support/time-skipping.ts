import { TestWorkflowEnvironment } from '@temporalio/testing';
import { inject } from 'vitest';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.ts';
import { silentLog } from './silent-log.ts';

/**
 * A server of its own whose clock skips ahead, with Holdfast's search attributes. It has one clock for all its
 * workflows, and neither List nor Count. The caller ends it with `teardown()`.
 */
export async function startTimeSkipping(): Promise<TestWorkflowEnvironment> {
  const env = await TestWorkflowEnvironment.createTimeSkipping({
    server: { executable: { type: 'existing-path', path: inject('testServerPath') } },
  });
  try {
    await ensureSearchAttributes(env.connection, env.namespace ?? 'default', silentLog);
    return env;
  } catch (error) {
    await env.teardown();
    throw error;
  }
}
