/** Lists of Tasks: Temporal's visibility, asked in the scheduler's words. Eventually consistent; never a source of truth. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { WorkflowExecutionInfo } from '@temporalio/client';
import type { Instant } from '../contracts/instant.ts';
import { sourceKeyword, type SearchAttributeName } from '../contracts/search-attributes.ts';
import { isTerminalStatus, type DeliveryState, type TaskStatus } from '../contracts/task.ts';
import { fingerprintOf, taskIdOfWorkflow } from './identity.ts';

/** Every field given must match; several values of one field are alternatives. */
export interface TaskFilter {
  status?: TaskStatus[] | undefined;
  type?: string | undefined;
  queue?: string | undefined;
  parentTaskId?: string | undefined;
  rootTaskId?: string | undefined;
  delivery?: DeliveryState[] | undefined;
  source?: string | undefined;
  createdAfter?: Instant | undefined;
}

/** What Temporal knows of a Task without its workflow: from search attributes alone. */
export interface TaskSummary {
  taskId: string;
  customerId: string;
  type: string;
  queue: string;
  status: TaskStatus;
  lineage: { rootTaskId: string; parentTaskId: string | null };
  source: string | null;
  createdAt: Instant;
  releaseAt: Instant;
  delivery: { state: DeliveryState };
}

export type ExecutionInfo = Pick<WorkflowExecutionInfo, 'workflowId' | 'status' | 'searchAttributes'>;

/** Ends that Temporal knows and the Task's own lifecycle does not: they read as canceled, whatever the attributes say. */
const ENDED_OUTSIDE = ['Terminated', 'Failed', 'TimedOut', 'Canceled'] as const;
const ENDED_OUTSIDE_STATUSES: ReadonlySet<string> = new Set(['TERMINATED', 'FAILED', 'TIMED_OUT', 'CANCELLED']);

/** Temporal's visibility query for a filter. Every value is quoted and escaped, enums as well. */
export function queryOf(customerId: string, filter: TaskFilter): string {
  const clauses = [equals('TaskCustomer', customerId), "ExecutionStatus != 'ContinuedAsNew'"];
  if (filter.status !== undefined) clauses.push(`(${filter.status.map(statusClause).join(' OR ')})`);
  if (filter.delivery !== undefined) clauses.push(`TaskDelivery IN (${filter.delivery.map(quoted).join(', ')})`);
  if (filter.type !== undefined) clauses.push(equals('TaskType', filter.type));
  if (filter.queue !== undefined) clauses.push(equals('TaskQueueName', filter.queue));
  if (filter.parentTaskId !== undefined) clauses.push(equals('TaskParent', filter.parentTaskId));
  if (filter.rootTaskId !== undefined) clauses.push(equals('TaskRoot', filter.rootTaskId));
  if (filter.source !== undefined) clauses.push(equals('TaskSource', sourceKeyword(filter.source)));
  if (filter.createdAfter !== undefined) clauses.push(`TaskCreatedAt > ${quoted(filter.createdAfter)}`);
  return clauses.join(' AND ');
}

function statusClause(status: TaskStatus): string {
  const own = equals('TaskStatus', status);
  // A workflow that was ended from outside keeps the status that it had.
  if (!isTerminalStatus(status)) return `(${own} AND ExecutionStatus = 'Running')`;
  if (status !== 'canceled') return own;
  return `(${own} OR ExecutionStatus IN (${ENDED_OUTSIDE.map(quoted).join(', ')}))`;
}

function equals(name: SearchAttributeName, value: string): string {
  return `${name} = ${quoted(value)}`;
}

function quoted(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

export function summaryOf(customerId: string, info: ExecutionInfo): TaskSummary {
  const { searchAttributes, status } = info;
  const text = (name: SearchAttributeName): string => String(searchAttributes[name]?.[0] ?? '');
  const moment = (name: SearchAttributeName): Instant => new Date(searchAttributes[name]?.[0] as Date).toISOString();
  const own = text('TaskStatus') as TaskStatus;
  return {
    taskId: taskIdOfWorkflow(info.workflowId),
    customerId,
    type: text('TaskType'),
    queue: text('TaskQueueName'),
    status: ENDED_OUTSIDE_STATUSES.has(status.name) && !isTerminalStatus(own) ? 'canceled' : own,
    lineage: { rootTaskId: text('TaskRoot'), parentTaskId: text('TaskParent') || null },
    source: text('TaskSource') || null,
    createdAt: moment('TaskCreatedAt'),
    releaseAt: moment('TaskReleaseAt'),
    delivery: { state: text('TaskDelivery') as DeliveryState },
  };
}

/**
 * Page tokens: Temporal's own, bound to the customer and the filter by a signature, so that a token that was changed, or
 * that another list gave, is refused instead of answered with somebody else's page.
 */
export class PageTokens {
  readonly #secret: Buffer;

  /** Facades that serve the same lists share the secret. */
  constructor(secret: Buffer) {
    this.#secret = secret;
  }

  seal(customerId: string, filter: TaskFilter, token: Uint8Array): string {
    const body = Buffer.from(token).toString('base64url');
    return `${body}.${this.#sign(customerId, filter, body).toString('base64url')}`;
  }

  /** Null when the token is not one of this list. */
  open(customerId: string, filter: TaskFilter, sealed: string): Uint8Array | null {
    const [body, signature, ...rest] = sealed.split('.');
    if (body === undefined || signature === undefined || rest.length > 0) return null;
    const expected = this.#sign(customerId, filter, body);
    const given = Buffer.from(signature, 'base64url');
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return null;
    return Buffer.from(body, 'base64url');
  }

  #sign(customerId: string, filter: TaskFilter, body: string): Buffer {
    return createHmac('sha256', this.#secret)
      .update(`${customerId}\n${fingerprintOf(filter)}\n${body}`)
      .digest();
  }
}
