/** The Task scheduler as its callers see it: the specification's operations, answered from durable state alone. */
import { randomBytes } from 'node:crypto';
import type { BaseLogger } from 'pino';
import type { CancelBody, ClaimBody, MessageBody, ReadMarkBody, ResultBody, ScheduleBody } from '../contracts/api.ts';
import type { Command, MessageCommand, RefusalCode, Verdict } from '../contracts/commands.ts';
import { HoldfastError, type ErrorCode } from '../contracts/errors.ts';
import { addSeconds } from '../contracts/instant.ts';
import { LIMITS } from '../contracts/limits.ts';
import type { Lineage, TaskRecord, TaskSpec, TaskView } from '../contracts/task.ts';
import { sourceKeyword, type SearchAttributeName } from '../contracts/search-attributes.ts';
import {
  QUERIES,
  SCHEMA_VERSION,
  type MessagesAnswer,
  type StopCheckAnswer,
  type TaskMemo,
  type TaskPolicy,
} from '../contracts/workflow.ts';
import { createRecord } from '../../workflows/task/lifecycle.ts';
import { readMessages } from '../../workflows/task/mailbox.ts';
import { viewOf } from '../../workflows/task/view.ts';
import { attributesAtStart } from '../../workflows/task/changing-attributes.ts';
import { claimsOf, type LayeredClaim } from './claims.ts';
import { recordOfClosed } from './closed.ts';
import { CommandDesk, type Decided } from './command-desk.ts';
import { GatewayError, isFault, type Gateway } from './gateway.ts';
import { queryOf, summaryOf, PageTokens, type TaskFilter, type TaskSummary } from './listing.ts';
import { fingerprintOf, freshMessageId, taskIdOfKey, workflowIdOf } from './identity.ts';
import type { ServerClock } from './server-clock.ts';
import { StopChecker, type StopCheck } from './stop-check.ts';
import { Watch } from './watch.ts';

/** Which Task, and under which key the command is known. */
export interface CommandTarget {
  customerId: string;
  taskId: string;
  /** The idempotency key in force. */
  key: string;
  /** Whether the key was made for this very call, and so cannot have been used before. */
  keyIsFresh: boolean;
}

/** How long a read may wait for a change, and what ends the wait before. */
export interface Wait {
  waitMs: number;
  signal: AbortSignal;
}

const NO_WAIT: Wait = { waitMs: 0, signal: new AbortController().signal };

/** What Temporal tells of a live Task while no worker answers: less, but consistent. */
export type DescribedTask = TaskSummary & { asOf: 'described' };

export interface SchedulerOptions {
  gateway: Gateway;
  clock: ServerClock;
  log: BaseLogger;
  policy: TaskPolicy;
  /** Of a Task that names none. */
  runTimeoutSeconds: number;
  runTimeoutSecondsMax: number;
  /** Shared by facades that serve the same lists. Left out: tokens last as long as this scheduler. */
  pageTokens?: PageTokens;
}

/** Bounds of one call, in ms. A read of a live Task with no worker takes both of its bounds, and stays under 5 s. */
const TIMEOUT_MS = {
  start: 10_000,
  signal: 5_000,
  verdict: 10_000,
  query: 3_000,
  read: 1_900,
  list: 4_000,
  stopCheck: 2_000,
} as const;

/** How far ahead a claim expires: one that is read later must not bind the Task to an executor that has gone. */
const CLAIM_EXPIRES_SECONDS = 30;

/** Refusals of a new Task that say nothing of one that was accepted before. */
const REFUSED_NOW: ReadonlySet<string> = new Set<ErrorCode>(['parent-not-found', 'parent-terminal', 'invalid-request']);

export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #gateway: Gateway;
  readonly #desk: CommandDesk;
  readonly #stopChecker: StopChecker;
  readonly #watch: Watch;
  readonly #pageTokens: PageTokens;

  constructor(options: SchedulerOptions) {
    this.#options = options;
    const { gateway, log } = options;
    this.#gateway = gateway;
    this.#desk = new CommandDesk({
      gateway,
      undecidedMax: 32,
      waitingMax: 256,
      tasksMax: 10_000,
      signalTimeoutMs: TIMEOUT_MS.signal,
      verdictTimeoutMs: TIMEOUT_MS.verdict,
    });
    this.#stopChecker = new StopChecker({ gateway, log, timeoutMs: TIMEOUT_MS.stopCheck, cacheMax: 10_000 });
    this.#pageTokens = options.pageTokens ?? new PageTokens(randomBytes(32));
    this.#watch = new Watch({ gateway, intervalMs: 500, describeTimeoutMs: TIMEOUT_MS.read, waitersMax: 1_000 });
  }

  /**
   * Accepts a Task durably (specification: "Scheduling persists before it notifies"): it exists once this returns, and
   * nothing was announced before. The same identity with the same body answers as the first time, whatever the Task's
   * status; with another body it fails with `idempotency-key-reused`.
   */
  async schedule(
    customerId: string,
    request: ScheduleBody,
    key: string,
  ): Promise<{ task: TaskView | DescribedTask; replayed: boolean }> {
    const taskId = request.taskId ?? taskIdOfKey(customerId, key);
    const workflowId = workflowIdOf(customerId, taskId);
    const fingerprint = fingerprintOf(request);
    try {
      const lineage = await this.#lineageOf(customerId, taskId, request.parentTaskId);
      const record = this.#newRecord(customerId, taskId, request, lineage);
      await this.#start(workflowId, record, fingerprint);
      return { task: viewOf(record), replayed: false };
    } catch (error) {
      const mayExist = isFault(error, 'exists') || (error instanceof HoldfastError && REFUSED_NOW.has(error.code));
      if (!mayExist) throw holdfastErrorOf(error, 'temporal-unavailable');
      // A parent that has ended since, or a limit that was lowered, does not change the answer of a replay.
      const replay = await this.#replay(customerId, taskId, fingerprint);
      if (replay === null) throw holdfastErrorOf(error, 'temporal-unavailable');
      return { task: replay, replayed: true };
    }
  }

  /** The Task as it stands: from its workflow, from its close event, or, with no worker, from what Temporal tells. */
  async get(customerId: string, taskId: string): Promise<TaskView | DescribedTask> {
    const workflowId = workflowIdOf(customerId, taskId);
    try {
      return await this.#gateway.query<TaskView>(workflowId, QUERIES.task, [], TIMEOUT_MS.query);
    } catch (error) {
      if (isFault(error, 'closed')) return viewOf(await this.#closedRecord(workflowId));
      if (isFault(error, 'missing')) throw new HoldfastError('task-not-found', undefined, { cause: error });
    }
    return this.#described(customerId, taskId);
  }

  /**
   * The Task once it differs from the representation that the caller knows, or null when it does not within the wait.
   * `isKnown` compares.
   */
  async getChanged(
    { customerId, taskId }: { customerId: string; taskId: string },
    isKnown: (task: TaskView | DescribedTask) => boolean,
    wait: Wait,
  ): Promise<TaskView | DescribedTask | null> {
    for await (const _ of this.#watch.changes(workflowIdOf(customerId, taskId), wait)) {
      const task = await this.get(customerId, taskId);
      if (!isKnown(task)) return task;
    }
    return null;
  }

  /** What can be said of the Task, in layers, each with its proof or with what would prove it. */
  async evidence(customerId: string, taskId: string): Promise<{ taskId: string; claims: LayeredClaim[] }> {
    const workflowId = workflowIdOf(customerId, taskId);
    const task = await this.get(customerId, taskId);
    if ('asOf' in task) throw new HoldfastError('worker-unavailable');
    try {
      const { runId } = await this.#gateway.describe(workflowId, TIMEOUT_MS.read);
      return { taskId, claims: claimsOf(task, { workflowId, runId }) };
    } catch (error) {
      throw holdfastErrorOf(error, 'temporal-unavailable');
    }
  }

  /** Whether an executor should stop. Never fails: a check that cannot be made says to go on, and is recorded. */
  async stopCheck(customerId: string, taskId: string): Promise<StopCheck> {
    return this.#stopChecker.check(customerId, taskId);
  }

  /** Asks for ownership of the run with a delivery's token. The claim id of an accepted claim is its key. */
  async claim(target: CommandTarget, request: ClaimBody): Promise<TaskView> {
    const { task } = await this.#command(target, request, (base) => ({
      kind: 'claim',
      ...base,
      deliveryEventId: request.deliveryEventId,
      executorId: request.executorId ?? null,
      expiresAt: addSeconds(this.#options.clock.now(), CLAIM_EXPIRES_SECONDS),
    }));
    return task;
  }

  /** Appends a message to the Task's mailbox. */
  async sendMessage(
    target: CommandTarget,
    request: MessageBody,
  ): Promise<{ messageId: string; seq: number; replayed: boolean }> {
    const messageId = freshMessageId();
    const { verdict } = await this.#command(target, request, (base): MessageCommand => ({
      kind: 'message',
      ...base,
      messageId,
      body: request.body,
    }));
    if (verdict?.message === undefined) throw new HoldfastError('internal', 'an accepted message without its number');
    return { ...verdict.message, replayed: verdict.message.messageId !== messageId };
  }

  /** Unread messages after a sequence number, in order. */
  async messages(
    customerId: string,
    taskId: string,
    { wait = NO_WAIT, ...range }: { after: number; limit: number; wait?: Wait },
  ): Promise<MessagesAnswer> {
    const workflowId = workflowIdOf(customerId, taskId);
    let answer: MessagesAnswer = { messages: [], lastSeq: 0, readSeq: 0 };
    for await (const _ of this.#watch.changes(workflowId, wait)) {
      try {
        answer = await this.#gateway.query<MessagesAnswer>(workflowId, QUERIES.messages, [range], TIMEOUT_MS.query);
      } catch (error) {
        // A Task that has ended gets no more messages: nothing to wait for.
        if (isFault(error, 'closed')) return readMessages((await this.#closedRecord(workflowId)).mailbox, range);
        throw holdfastErrorOf(error, 'temporal-unavailable');
      }
      if (answer.messages.length > 0) break;
    }
    return answer;
  }

  /** Frees the messages up to a sequence number. A mark behind the present one changes nothing. */
  async markRead(target: CommandTarget, request: ReadMarkBody): Promise<TaskView['mailbox']> {
    const { task } = await this.#command(target, request, (base) => ({
      kind: 'mark-read',
      ...base,
      upTo: request.upTo,
    }));
    return task.mailbox;
  }

  /** An operator's repair: the delivery starts over with the same token. */
  async redeliver(target: CommandTarget): Promise<TaskView> {
    const { task } = await this.#command(target, {}, (base) => ({ kind: 'redeliver', ...base }));
    return task;
  }

  /**
   * One page of a customer's Tasks. Eventually consistent: a Task that changes while pages are read may come twice, none
   * is skipped. A token that is not of this list fails with `invalid-request`.
   */
  async list(
    customerId: string,
    filter: TaskFilter,
    page: { pageSize: number; pageToken?: string | undefined },
  ): Promise<{ tasks: TaskSummary[]; nextPageToken: string | null }> {
    const token = page.pageToken === undefined ? null : this.#pageTokens.open(customerId, filter, page.pageToken);
    if (token === null && page.pageToken !== undefined) throw invalidField('pageToken', 'is not one of this list');
    try {
      const query = queryOf(customerId, filter);
      const { found, nextToken } = await this.#gateway.list(query, { pageSize: page.pageSize, token }, TIMEOUT_MS.list);
      // Continue-as-new may show two runs of one Task for a moment.
      const byId = new Map(found.map((info) => [info.workflowId, summaryOf(customerId, info)]));
      const nextPageToken = nextToken === null ? null : this.#pageTokens.seal(customerId, filter, nextToken);
      return { tasks: [...byId.values()], nextPageToken };
    } catch (error) {
      throw holdfastErrorOf(error, 'temporal-unavailable');
    }
  }

  /** Ends a Task that should no longer go on. A Task that was canceled already answers as one that is. */
  async cancel(target: CommandTarget, request: CancelBody): Promise<TaskView> {
    const reason = request.reason ?? null;
    const { task } = await this.#command(target, request, (base) => ({ kind: 'cancel', ...base, reason }), {
      toleratedRefusal: (code, current) => code === 'task-terminal' && current.status === 'canceled',
    });
    return task;
  }

  /** Records what an executor reports. Accepted means recorded, not that it is right. */
  async recordResult(target: CommandTarget, request: ResultBody): Promise<TaskView> {
    const { success, summary, output, effects, error, claimId, ifMailboxSeq } = request;
    const { task } = await this.#command(target, request, (base) => ({
      kind: 'result',
      ...base,
      success,
      summary: summary ?? null,
      output: output ?? null,
      effects: effects ?? [],
      error: error ?? null,
      claimId: claimId ?? null,
      ifMailboxSeq: ifMailboxSeq ?? null,
    }));
    return task;
  }

  /** Whether Temporal answers within the bound. */
  async isReachable(timeoutMs: number): Promise<boolean> {
    try {
      await this.#gateway.ping(timeoutMs);
      return true;
    } catch {
      return false;
    }
  }

  async #command(
    target: CommandTarget,
    body: unknown,
    build: (base: { key: string; fingerprint: string }) => Command,
    options: { toleratedRefusal?: (code: RefusalCode, task: TaskView) => boolean } = {},
  ): Promise<{ verdict: Verdict | null; task: TaskView }> {
    const { clock } = this.#options;
    const command = build({ key: target.key, fingerprint: fingerprintOf(body) });
    const sentAt = clock.now();
    const decided = await this.#decide(workflowIdOf(target.customerId, target.taskId), command);
    const { answer, task } = decided;
    switch (answer.found) {
      case 'verdict': {
        const { verdict } = answer;
        // A key that is as new as this call was decided within it; an older verdict says nothing about clocks.
        if (target.keyIsFresh) clock.observe(verdict.at, sentAt);
        if (verdict.code === 'accepted') return { verdict, task };
        if (options.toleratedRefusal?.(verdict.code, task) === true) return { verdict, task };
        throw refusal(verdict.code, task);
      }
      case 'key-reused':
        throw new HoldfastError('idempotency-key-reused');
      case 'unknown-command':
        throw new HoldfastError('unsupported-by-worker');
      case 'unknown':
        if (!decided.closed) throw new HoldfastError('verdict-unavailable');
        if (options.toleratedRefusal?.('task-terminal', task) === true) return { verdict: null, task };
        throw refusal('task-terminal', task);
      default:
        throw new Error(`unreachable: ${JSON.stringify(answer satisfies never)}`);
    }
  }

  async #decide(workflowId: string, command: Command): Promise<Decided> {
    try {
      return await this.#desk.decide(workflowId, command);
    } catch (error) {
      // After an acknowledged signal the command is durable, and only its verdict is out of reach.
      throw holdfastErrorOf(error, 'verdict-unavailable');
    }
  }

  async #lineageOf(customerId: string, taskId: string, parentTaskId: string | undefined): Promise<Lineage> {
    if (parentTaskId === undefined) return { rootTaskId: taskId, parentTaskId: null, ancestors: [] };
    if (parentTaskId === taskId) throw new HoldfastError('parent-not-found', 'a Task cannot be its own parent');
    const parent = await this.#parent(customerId, parentTaskId);
    if (!parent.active) throw new HoldfastError('parent-terminal');
    const ancestors = [parentTaskId, ...parent.ancestors];
    if (ancestors.length > LIMITS.lineageDepthMax) throw new HoldfastError('lineage-too-deep');
    return { rootTaskId: ancestors.at(-1) ?? parentTaskId, parentTaskId, ancestors };
  }

  /** Whether a parent is active, and its ancestors: from its workflow, or with no worker from Temporal's own records. */
  async #parent(customerId: string, taskId: string): Promise<{ active: boolean; ancestors: string[] }> {
    const workflowId = workflowIdOf(customerId, taskId);
    try {
      const { ancestors } = await this.#gateway.query<StopCheckAnswer>(
        workflowId,
        QUERIES.stopCheck,
        [],
        TIMEOUT_MS.query,
      );
      return { active: true, ancestors };
    } catch (error) {
      if (isFault(error, 'closed')) return { active: false, ancestors: [] };
      if (isFault(error, 'missing')) throw parentNotFound(error);
    }
    try {
      const { status } = await this.#gateway.describe(workflowId, TIMEOUT_MS.read);
      if (status.name !== 'RUNNING' && status.name !== 'PAUSED') return { active: false, ancestors: [] };
      const { spec } = await this.#gateway.readStart(workflowId, TIMEOUT_MS.read);
      return { active: true, ancestors: spec.lineage.ancestors };
    } catch (error) {
      throw isFault(error, 'missing') ? parentNotFound(error) : error;
    }
  }

  #newRecord(customerId: string, taskId: string, request: ScheduleBody, lineage: Lineage): TaskRecord {
    const createdAt = this.#options.clock.now();
    const releaseAt = request.releaseAt ?? addSeconds(createdAt, request.delaySeconds ?? 0);
    const runTimeoutSeconds = request.runTimeoutSeconds ?? this.#options.runTimeoutSeconds;
    if (releaseAt > addSeconds(createdAt, LIMITS.releaseAheadSecondsMax))
      throw invalidField('releaseAt', 'is too far ahead');
    if (runTimeoutSeconds > this.#options.runTimeoutSecondsMax)
      throw invalidField('runTimeoutSeconds', 'is longer than the configuration permits');
    const spec: TaskSpec = {
      taskId,
      customerId,
      type: request.type,
      queue: request.queue ?? 'default',
      priority: request.priority ?? 3,
      input: request.input ?? null,
      source: request.source ?? null,
      labels: request.labels ?? {},
      lineage,
      continuesTaskId: request.continuesTaskId ?? null,
      createdAt,
      releaseAt,
      runTimeoutSeconds,
    };
    const kind = lineage.parentTaskId === null ? 'root' : 'child';
    return createRecord(spec, { decision: 'admitted', kind, usage: 'not-asked', quota: 'not-asked', reason: null });
  }

  async #start(workflowId: string, record: TaskRecord, fingerprint: string): Promise<void> {
    const { spec } = record;
    const { status, delivery } = attributesAtStart(record);
    const attributes: Partial<Record<SearchAttributeName, string | Date>> = {
      TaskStatus: status,
      TaskDelivery: delivery,
      TaskType: spec.type,
      TaskCustomer: spec.customerId,
      TaskQueueName: spec.queue,
      TaskRoot: spec.lineage.rootTaskId,
      ...(spec.lineage.parentTaskId === null ? {} : { TaskParent: spec.lineage.parentTaskId }),
      ...(spec.source === null ? {} : { TaskSource: sourceKeyword(`${spec.source.kind}:${spec.source.ref}`) }),
      TaskReleaseAt: new Date(spec.releaseAt),
      TaskCreatedAt: new Date(spec.createdAt),
    };
    await this.#gateway.start(
      {
        workflowId,
        input: { schemaVersion: SCHEMA_VERSION, policy: this.#options.policy, record },
        memo: { fingerprint, createdAt: spec.createdAt },
        attributes,
        summary: `${spec.type} ${spec.taskId}`,
      },
      TIMEOUT_MS.start,
    );
  }

  /** The Task that an equal request started before; null when there is none. */
  async #replay(customerId: string, taskId: string, fingerprint: string): Promise<TaskView | DescribedTask | null> {
    const workflowId = workflowIdOf(customerId, taskId);
    let memo: TaskMemo;
    try {
      memo = (await this.#gateway.describe(workflowId, TIMEOUT_MS.read)).memo as unknown as TaskMemo;
    } catch (error) {
      if (isFault(error, 'missing')) return null;
      throw holdfastErrorOf(error, 'temporal-unavailable');
    }
    if (memo.fingerprint !== fingerprint) throw new HoldfastError('idempotency-key-reused');
    return this.get(customerId, taskId);
  }

  async #closedRecord(workflowId: string): Promise<TaskRecord> {
    try {
      return recordOfClosed(await this.#gateway.readClosed(workflowId, TIMEOUT_MS.read));
    } catch (error) {
      throw holdfastErrorOf(error, 'temporal-unavailable');
    }
  }

  async #described(customerId: string, taskId: string): Promise<TaskView | DescribedTask> {
    const workflowId = workflowIdOf(customerId, taskId);
    try {
      const info = await this.#gateway.describe(workflowId, TIMEOUT_MS.read);
      const isOpen = info.status.name === 'RUNNING' || info.status.name === 'PAUSED';
      if (!isOpen) return viewOf(await this.#closedRecord(workflowId));
      return { asOf: 'described', ...summaryOf(customerId, info) };
    } catch (error) {
      throw holdfastErrorOf(error, 'temporal-unavailable');
    }
  }
}

function parentNotFound(cause: unknown): HoldfastError {
  return new HoldfastError('parent-not-found', undefined, { cause });
}

function invalidField(field: string, message: string): HoldfastError {
  return new HoldfastError('invalid-request', undefined, { extra: { errors: [{ field, message }] } });
}

function refusal(code: RefusalCode, task: TaskView): HoldfastError {
  return new HoldfastError(code, undefined, code === 'task-terminal' ? { extra: { task } } : {});
}

/** Our error for a failed call; `otherwise` says what is known when Temporal or a worker did not answer. */
function holdfastErrorOf(error: unknown, otherwise: 'temporal-unavailable' | 'verdict-unavailable'): HoldfastError {
  if (error instanceof HoldfastError) return error;
  if (isFault(error, 'missing')) return new HoldfastError('task-not-found', undefined, { cause: error });
  if (isFault(error, 'unsupported')) return new HoldfastError('unsupported-by-worker', undefined, { cause: error });
  if (error instanceof GatewayError) return new HoldfastError(otherwise, undefined, { cause: error });
  return new HoldfastError('internal', undefined, { cause: error });
}
