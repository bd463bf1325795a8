import type { Verdict } from './commands.ts';
import type { ReportedEffect } from './reported-effect.ts';
import type { Instant } from './instant.ts';
import type { Json } from './json.ts';

/**
 * The canonical statuses (specification: "The Task status is a durable claim"), each with whether it is final. A list
 * complete by construction: a status that is missing here does not compile.
 */
export type TaskStatus = 'scheduled' | 'queued' | 'running' | 'succeeded' | 'failed' | 'canceled' | 'timed_out';

const FINAL = {
  scheduled: false,
  queued: false,
  running: false,
  succeeded: true,
  failed: true,
  canceled: true,
  timed_out: true,
} as const satisfies Record<TaskStatus, boolean>;

export type TerminalStatus = { [S in TaskStatus]: (typeof FINAL)[S] extends true ? S : never }[TaskStatus];

export const TASK_STATUSES = Object.keys(FINAL) as TaskStatus[];

/** Whether a status is one of the four that are never left. */
export function isTerminalStatus(status: TaskStatus): status is TerminalStatus {
  return FINAL[status];
}

/** What asked for the Task, in the words of where it came from (an incident, a chat message, a pull request). */
export interface Source {
  kind: string;
  ref: string;
  url?: string | undefined;
}

/** A Task's place among its ancestors. It never changes: it is part of the start input, so no cycle can form. */
export interface Lineage {
  rootTaskId: string;
  parentTaskId: string | null;
  /** Parent first, root last; empty for a root. */
  ancestors: string[];
}

/** What a Task is, fixed for life when it is accepted. */
export interface TaskSpec {
  taskId: string;
  customerId: string;
  type: string;
  queue: string;
  /** 1 is the most urgent, 5 the least, as in Temporal. */
  priority: number;
  input: Json;
  source: Source | null;
  labels: Record<string, string>;
  lineage: Lineage;
  continuesTaskId: string | null;
  createdAt: Instant;
  releaseAt: Instant;
  runTimeoutSeconds: number;
}

/** What is known of the readiness that was announced; `attempts` counts publish attempts over all rounds. */
interface DeliveryFacts {
  publishedAt: Instant | null;
  attempts: number;
  /** How often publication was started: 1 for the first, more after redeliveries. */
  round: number;
  lastError: string | null;
}

/**
 * The ready delivery of a Task. `eventId` is the claim token: there is one for life, made at release.
 * none: no readiness is owed (not yet released, or ended unclaimed) · pending: a publish is owed and durable ·
 * published: the transport took it, nobody claimed yet · consumed: a claim was accepted for it · exhausted: given up,
 * visible, and still claimable.
 */
export type Delivery = DeliveryFacts &
  (
    | { state: 'none'; eventId: string | null }
    | { state: 'pending'; eventId: string; publishUntil: Instant }
    | { state: 'published'; eventId: string; publishedAt: Instant; redeliverAt: Instant }
    | { state: 'consumed'; eventId: string }
    | { state: 'exhausted'; eventId: string; exhaustedAt: Instant }
  );

export type DeliveryState = Delivery['state'];
export const DELIVERY_STATES = ['none', 'pending', 'published', 'consumed', 'exhausted'] as const;

/** Which command did it: kept for good where it was accepted, so that a repeat gets the same verdict. */
export interface CommandRef {
  key: string;
  fingerprint: string;
}

/** An accepted claim. `command.key` is the claim id: the secret of the executor that won. */
export interface Claim {
  deliveryEventId: string;
  executorId: string | null;
  claimedAt: Instant;
  command: CommandRef;
}

/** What an executor reported. Accepted means recorded, not that it is right. */
export interface TaskResult {
  success: boolean;
  summary: string | null;
  output: Json;
  effects: ReportedEffect[];
  error: Json;
}

export interface Cancellation {
  reason: string | null;
  /** Who asked: a command of the API, or an operator in Temporal's own tools. */
  by: 'command' | 'temporal' | 'admission';
}

/** The part of a Task that its status decides: each status carries only its own data. */
export type TaskPhase =
  | { status: 'scheduled' }
  | { status: 'queued'; queuedAt: Instant }
  | { status: 'running'; queuedAt: Instant | null; startedAt: Instant; timeoutAt: Instant; claim: Claim }
  | EndedPhase;

/** What a Task had reached when it ended. */
interface Reached {
  queuedAt: Instant | null;
  startedAt: Instant | null;
  claim: Claim | null;
  completedAt: Instant;
}

export type EndedPhase =
  | (Reached & { status: 'succeeded' | 'failed'; result: TaskResult; command: CommandRef })
  | (Reached & { status: 'canceled'; cancellation: Cancellation; command: CommandRef | null })
  | (Reached & { status: 'timed_out'; startedAt: Instant; timeoutAt: Instant; claim: Claim });

/** One entry of the Task's own history; `transitions[0]`, its creation, is durable before any timer or publish. */
export interface Transition {
  revision: number;
  at: Instant;
  from: TaskStatus | null;
  to: TaskStatus;
  cause: TransitionCause;
}

export type TransitionCause =
  | 'created'
  | 'published'
  | 'claim-accepted'
  | 'result-accepted'
  | 'cancel-accepted'
  | 'canceled-in-temporal'
  | 'terminated-by-operator'
  | 'ended-by-temporal'
  | 'run-window-exceeded'
  | 'admission-rejected';

export interface Message {
  seq: number;
  messageId: string;
  at: Instant;
  body: Json;
}

/** A message with the command that brought it, so that its repeat is found. */
export type KeptMessage = Message & { revision: number; command: CommandRef };

export interface Mailbox {
  /** Sequence number of the last accepted message, 0 before the first. */
  lastSeq: number;
  /** Messages up to this one are marked read, and their bodies are gone. */
  readSeq: number;
  unreadBytes: number;
  /** What they may take, fixed at the start: the record must stay under Temporal's payload limit. */
  unreadBytesMax: number;
  /** The unread ones, in order. */
  messages: KeptMessage[];
}

/** How the Task was admitted. */
export interface Admission {
  decision: 'admitted' | 'rejected';
  kind: 'root' | 'child';
  usage: 'not-asked' | 'allowed' | 'denied' | 'unavailable';
  quota: 'not-asked' | 'within' | 'exceeded';
  reason: string | null;
}

/** The durable Task record: the state of the Task's workflow, and its result once it has closed. */
export interface TaskRecord {
  spec: TaskSpec;
  admission: Admission;
  /** Grows by one with each accepted change. */
  revision: number;
  phase: TaskPhase;
  delivery: Delivery;
  mailbox: Mailbox;
  /** Verdicts that no other part of the record holds, oldest first, capped. */
  verdicts: StoredVerdict[];
  transitions: Transition[];
}

/** A verdict with the fingerprint that its command had. */
export type StoredVerdict = Verdict & { fingerprint: string };

/** A Task as the API shows it (design: "Task fields"): the record, flattened. */
export interface TaskView {
  taskId: string;
  customerId: string;
  type: string;
  queue: string;
  priority: number;
  status: TaskStatus;
  revision: number;
  input: Json;
  source: Source | null;
  labels: Record<string, string>;
  lineage: Lineage;
  continuesTaskId: string | null;
  createdAt: Instant;
  releaseAt: Instant;
  queuedAt: Instant | null;
  startedAt: Instant | null;
  completedAt: Instant | null;
  runTimeoutSeconds: number;
  timeoutAt: Instant | null;
  nextAlarmAt: Instant | null;
  delivery: DeliveryView;
  /** The token is null where the caller may not see it. */
  claim: { deliveryEventId: string | null; executorId: string | null; claimedAt: Instant } | null;
  mailbox: { lastSeq: number; readSeq: number; unread: number };
  admission: Admission;
  cancellation: Cancellation | null;
  result: TaskResult | null;
  transitions: Transition[];
}

export interface DeliveryView {
  eventId: string | null;
  state: DeliveryState;
  publishedAt: Instant | null;
  attempts: number;
  /** When an attempt that failed is repeated, or a published delivery that nobody claims is published again. */
  nextAttemptAt: Instant | null;
  lastError: string | null;
}
