/** Names of things in Temporal, all of them derived, so that every process derives the same. */
import { createHash, randomUUID } from 'node:crypto';
import { stringify } from 'safe-stable-stringify';

/** `task:{customer}:{task}`: neither id holds a colon, so the joined id is unambiguous. */
export function workflowIdOf(customerId: string, taskId: string): string {
  return `task:${customerId}:${taskId}`;
}

/** The Task's part of `workflowIdOf`. */
export function taskIdOfWorkflow(workflowId: string): string {
  return workflowId.slice(workflowId.lastIndexOf(':') + 1);
}

/** The Task id that an idempotency key stands for: the same key of the same customer is the same Task. */
export function taskIdOfKey(customerId: string, key: string): string {
  return `t${createHash('sha256').update(`${customerId}\n${key}`).digest('hex').slice(0, 32)}`;
}

/** A short digest of a request's body, whatever the order of its fields: tells a repeat from a reused key. */
export function fingerprintOf(body: unknown): string {
  return createHash('sha256')
    .update(stringify(body) ?? '')
    .digest('base64url')
    .slice(0, 22);
}

/** A key for a command that came without one. */
export function freshKey(): string {
  return `k_${randomUUID()}`;
}

export function freshMessageId(): string {
  return `msg_${randomUUID()}`;
}
