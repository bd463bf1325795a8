/**
 * The calls to Temporal that the scheduler makes, each with a bound, and the one place that knows the client's errors:
 * what comes out is an answer or a `GatewayError` in the scheduler's own words.
 */
import { status as GrpcStatus } from '@grpc/grpc-js';
import {
  isGrpcServiceError,
  QueryNotRegisteredError,
  QueryRejectedError,
  ServiceError,
  WorkflowNotFoundError,
  type Client,
  type WorkflowExecutionDescription,
} from '@temporalio/client';
import {
  NamespaceNotFoundError,
  SearchAttributeType,
  WorkflowExecutionAlreadyStartedError,
  type SearchAttributePair,
} from '@temporalio/common';
import { executionInfoFromRaw } from '@temporalio/client/lib/helpers.js';
import { decodeArrayFromPayloads } from '@temporalio/common/lib/internal-non-workflow/index.js';
import proto from '@temporalio/proto';
import type { temporal } from '@temporalio/proto';
import type { Command } from '../contracts/commands.ts';
import type { TaskRecord } from '../contracts/task.ts';
import { SEARCH_ATTRIBUTES, type SearchAttributeName } from '../contracts/search-attributes.ts';
import type { ExecutionInfo } from './listing.ts';
import { TASK_WORKFLOW_TYPE, type TaskMemo, type TaskWorkflowInput } from '../contracts/workflow.ts';

/**
 * missing: the id is unknown in a namespace that is known and permitted · exists: the id was started before ·
 * closed: the workflow has ended, the query was not asked · moved-on: continued as new just now, ask again ·
 * unsupported: the worker's code does not know the query · timeout: no answer within the bound ·
 * unavailable: anything else, Temporal out of reach among it.
 */
export type GatewayFault = 'missing' | 'exists' | 'closed' | 'moved-on' | 'unsupported' | 'timeout' | 'unavailable';

export class GatewayError extends Error {
  override readonly name = 'GatewayError';
  readonly fault: GatewayFault;

  constructor(fault: GatewayFault, message: string, cause: unknown) {
    super(message, { cause });
    this.fault = fault;
  }
}

export function isFault(error: unknown, ...faults: GatewayFault[]): error is GatewayError {
  return error instanceof GatewayError && faults.includes(error.fault);
}

/**
 * Bound of one attempt of a query. A query that Temporal has buffered when the workflow closes may never be answered,
 * while one that is asked anew is refused at once as closed.
 */
const QUERY_ATTEMPT_MS = 1_500;

export interface StartRequest {
  workflowId: string;
  input: TaskWorkflowInput;
  memo: TaskMemo;
  attributes: Partial<Record<SearchAttributeName, string | Date>>;
  summary: string;
}

/** How a closed workflow ended, read from its history alone: no worker, no replay. */
export type ClosedWorkflow =
  | { how: 'completed'; record: TaskRecord }
  /** Ended by something else than the Task's own lifecycle; `record` is where its last run began. */
  | { how: 'terminated' | 'broken'; by: string; reason: string; closedAt: Date; record: TaskRecord };

export interface GatewayOptions {
  client: Client;
  /** Task queue of the workflow workers. */
  taskQueue: string;
}

export class Gateway {
  readonly #client: Client;
  readonly #taskQueue: string;

  /** The client must be made with `queryRejectCondition: NOT_OPEN`: closed workflows are read from their history. */
  constructor({ client, taskQueue }: GatewayOptions) {
    this.#client = client;
    this.#taskQueue = taskQueue;
  }

  /** Starts a Task's workflow. Refused as `exists` when the id was ever used within retention. */
  async start(request: StartRequest, timeoutMs: number): Promise<void> {
    const { spec } = request.input.record;
    await this.#bounded('start', timeoutMs, () =>
      this.#client.workflow.start(TASK_WORKFLOW_TYPE, {
        workflowId: request.workflowId,
        taskQueue: this.#taskQueue,
        args: [request.input],
        workflowIdReusePolicy: 'REJECT_DUPLICATE',
        workflowTaskTimeout: '60 seconds',
        memo: { ...request.memo },
        typedSearchAttributes: pairsOf(request.attributes),
        staticSummary: request.summary,
        // On the start, so that a customer's backlog of workflow tasks does not hold up another's.
        priority: { priorityKey: spec.priority, fairnessKey: spec.customerId },
      }),
    );
  }

  /** Sends a command. `missing` may also mean closed: the caller reads on. */
  async signal(workflowId: string, command: Command, timeoutMs: number): Promise<void> {
    const { kind, ...payload } = command;
    await this.#bounded('signal', timeoutMs, () => this.#client.workflow.getHandle(workflowId).signal(kind, payload));
  }

  async query<Answer>(workflowId: string, name: string, args: unknown[], timeoutMs: number): Promise<Answer> {
    const until = Date.now() + timeoutMs;
    for (;;) {
      const leftMs = Math.max(1, until - Date.now());
      try {
        return await this.#bounded('query', Math.min(leftMs, QUERY_ATTEMPT_MS), () =>
          this.#client.workflow.getHandle(workflowId).query<Answer, unknown[]>(name, ...args),
        );
      } catch (error) {
        if (!isFault(error, 'timeout') || leftMs <= QUERY_ATTEMPT_MS) throw error;
      }
    }
  }

  async describe(workflowId: string, timeoutMs: number): Promise<WorkflowExecutionDescription> {
    return this.#bounded('describe', timeoutMs, () => this.#client.workflow.getHandle(workflowId).describe());
  }

  /** One page of a visibility query. */
  async list(
    query: string,
    page: { pageSize: number; token: Uint8Array | null },
    timeoutMs: number,
  ): Promise<{ found: ExecutionInfo[]; nextToken: Uint8Array | null }> {
    const { namespace, loadedDataConverter } = this.#client.options;
    return this.#bounded('list', timeoutMs, async () => {
      const { executions, nextPageToken } = await this.#client.workflowService.listWorkflowExecutions({
        namespace,
        query,
        pageSize: page.pageSize,
        ...(page.token === null ? {} : { nextPageToken: page.token }),
      });
      const found = await Promise.all(
        executions.map((raw) => executionInfoFromRaw(raw, loadedDataConverter, undefined, namespace)),
      );
      return { found, nextToken: nextPageToken.length === 0 ? null : nextPageToken };
    });
  }

  /** Reads how a closed workflow ended. Only to be called for one that is known to be closed. */
  async readClosed(workflowId: string, timeoutMs: number): Promise<ClosedWorkflow> {
    return this.#bounded('read', timeoutMs, async () => {
      const close = await this.#history(workflowId, 'close');
      const completed = close?.workflowExecutionCompletedEventAttributes;
      if (completed) return { how: 'completed', record: await this.#decodeFirst<TaskRecord>(completed.result) };
      const first = await this.#history(workflowId, 'first');
      const started = first?.workflowExecutionStartedEventAttributes;
      if (!close || !started) throw new GatewayError('unavailable', 'the history is not whole', undefined);
      const { record } = await this.#decodeFirst<TaskWorkflowInput>(started.input);
      const closedAt = new Date(Number(close.eventTime?.seconds ?? 0) * 1000 + (close.eventTime?.nanos ?? 0) / 1e6);
      const terminated = close.workflowExecutionTerminatedEventAttributes;
      // The server itself terminates what outgrew its limits: that is Holdfast's failure and no operator's decision.
      if (terminated && terminated.identity !== 'history-service') {
        return { how: 'terminated', by: terminated.identity ?? '', reason: terminated.reason ?? '', closedAt, record };
      }
      const failure = close.workflowExecutionFailedEventAttributes?.failure?.message;
      const reason = terminated?.reason ?? failure ?? 'ended by Temporal';
      return { how: 'broken', by: terminated?.identity ?? 'temporal', reason, closedAt, record };
    });
  }

  /** Where the newest run of a workflow began. */
  async readStart(workflowId: string, timeoutMs: number): Promise<TaskRecord> {
    return this.#bounded('read', timeoutMs, async () => {
      const started = (await this.#history(workflowId, 'first'))?.workflowExecutionStartedEventAttributes;
      if (!started) throw new GatewayError('unavailable', 'the history has no start', undefined);
      return (await this.#decodeFirst<TaskWorkflowInput>(started.input)).record;
    });
  }

  /** Whether Temporal answers and the namespace is there. */
  async ping(timeoutMs: number): Promise<void> {
    const { namespace } = this.#client.options;
    await this.#bounded('ping', timeoutMs, () => this.#client.workflowService.describeNamespace({ namespace }));
  }

  async #history(workflowId: string, which: 'first' | 'close'): Promise<temporal.api.history.v1.IHistoryEvent | null> {
    const filters = proto.temporal.api.enums.v1.HistoryEventFilterType;
    const page = await this.#client.workflowService.getWorkflowExecutionHistory({
      namespace: this.#client.options.namespace,
      execution: { workflowId },
      historyEventFilterType:
        which === 'close' ? filters.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT : filters.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT,
      maximumPageSize: 1,
      skipArchival: true,
    });
    return page.history?.events?.[0] ?? null;
  }

  async #decodeFirst<Value>(payloads: temporal.api.common.v1.IPayloads | null | undefined): Promise<Value> {
    const converter = this.#client.options.loadedDataConverter;
    const [value] = await decodeArrayFromPayloads(converter, payloads?.payloads);
    return value as Value;
  }

  async #bounded<Answer>(what: string, timeoutMs: number, call: () => Promise<Answer>): Promise<Answer> {
    try {
      return await this.#client.connection.withDeadline(Date.now() + timeoutMs, call);
    } catch (error) {
      throw gatewayErrorOf(what, error);
    }
  }
}

function pairsOf(attributes: StartRequest['attributes']): SearchAttributePair[] {
  return Object.entries(attributes).map(([name, value]) =>
    SEARCH_ATTRIBUTES[name as SearchAttributeName] === 'Datetime'
      ? { key: { name, type: SearchAttributeType.DATETIME }, value: value as Date }
      : { key: { name, type: SearchAttributeType.KEYWORD }, value: value as string },
  );
}

const { WorkflowExecutionStatus } = proto.temporal.api.enums.v1;

/** Statuses of a rejected query that mean the workflow has ended. */
const CLOSED_STATUSES: ReadonlySet<temporal.api.enums.v1.WorkflowExecutionStatus> = new Set([
  WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_COMPLETED,
  WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_FAILED,
  WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_CANCELED,
  WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_TERMINATED,
  WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_TIMED_OUT,
]);

function gatewayErrorOf(what: string, error: unknown): GatewayError {
  if (error instanceof GatewayError) return error;
  return new GatewayError(faultOf(error), `${what}: ${messageOf(error)}`, error);
}

function faultOf(error: unknown): GatewayFault {
  if (error instanceof WorkflowExecutionAlreadyStartedError) return 'exists';
  if (error instanceof QueryRejectedError) {
    if (CLOSED_STATUSES.has(error.status)) return 'closed';
    const movedOn = error.status === WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW;
    return movedOn ? 'moved-on' : 'unavailable';
  }
  // The client takes every INVALID_ARGUMENT for this; only one that says so is it.
  if (error instanceof QueryNotRegisteredError) {
    return /did not register a handler|unknown query/i.test(messageOf(error)) ? 'unsupported' : 'unavailable';
  }
  // A namespace that is missing looks like a missing workflow to gRPC: it is an outage, not an answer.
  if (error instanceof NamespaceNotFoundError) return 'unavailable';
  if (error instanceof WorkflowNotFoundError) return 'missing';
  const grpc = error instanceof ServiceError ? error.cause : error;
  if (isGrpcServiceError(grpc)) {
    if (grpc.code === GrpcStatus.DEADLINE_EXCEEDED) return 'timeout';
    if (grpc.code === GrpcStatus.NOT_FOUND) return 'missing';
  }
  return 'unavailable';
}

function messageOf(error: unknown): string {
  const cause = error instanceof ServiceError ? error.cause : error;
  return cause instanceof Error ? cause.message : String(cause);
}
