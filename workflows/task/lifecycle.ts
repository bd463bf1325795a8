/**
 * The lifecycle of a Task: pure, and the only writer of its status. No Temporal, no clock, no randomness in here: the
 * time and new ids come with each event. The wiring in `task.ts` turns effects into activities and alarms into timers.
 *
 * Invariants, held by every transition and cited by the tests:
 *   I1  A terminal status is never left, and nothing of a terminal record but its table of verdicts changes.
 *   I2  At most one claim is accepted for a token, and only a claim that presents the Task's own token.
 *   I3  A token is made at release, never before, and a Task has one token for life.
 *   I4  The status never moves backward: no publish answer turns running or terminal into queued.
 *   I5  Accepted messages are numbered without gaps, and readable in order until they are marked read.
 *   I6  A Task is never released, timed out or redelivered before its time.
 *   I7  The same (kind, key) gets the same verdict and changes nothing, until a verdict that is not final is decided
 *       afresh.
 *   I8  The record stays under its byte cap, so that continue-as-new and the close always pass.
 *   I9  Each accepted change raises the revision by one; `transitions` lists each change of status, in order.
 *   I10 A terminal or running Task owes no publish and has no release or redelivery alarm; a terminal one has no alarm.
 */
import type {
  ClaimCommand,
  Command,
  CommandKind,
  MarkReadCommand,
  MessageCommand,
  RefusalCode,
  ResultCommand,
  Verdict,
  VerdictAnswer,
  VerdictCode,
  VerdictQuestion,
} from '../../src/contracts/commands.ts';
import { COMMAND_KINDS, isFinalVerdict } from '../../src/contracts/commands.ts';
import { addSeconds, type Instant } from '../../src/contracts/instant.ts';
import { jsonBytes } from '../../src/contracts/json.ts';
import { LIMITS } from '../../src/contracts/limits.ts';
import type {
  Admission,
  Claim,
  CommandRef,
  Delivery,
  EndedPhase,
  KeptMessage,
  StoredVerdict,
  TaskPhase,
  TaskRecord,
  TaskSpec,
  TransitionCause,
} from '../../src/contracts/task.ts';
import { isTerminalStatus } from '../../src/contracts/task.ts';
import type { TaskPolicy } from '../../src/contracts/workflow.ts';

/** When it happened, and what the decision may need but must not make itself. */
export interface EventContext {
  /** Now, on Temporal's clock. */
  at: Instant;
  /** The claim token, should this event be the one that makes it. */
  newDeliveryEventId: string;
  /** Whether a publish activity is under way, which only the wiring can know. */
  publishUnderWay: boolean;
  policy: TaskPolicy;
}

/** What happens to a Task without a command: timers, answers of the publish activity, and Temporal's own tools. */
export type OwnEvent =
  | { kind: 'released' }
  | { kind: 'published'; attempts: number }
  | { kind: 'publish-exhausted'; attempts: number; lastError: string }
  | { kind: 'redelivery-due' }
  | { kind: 'run-timer' }
  /** Cancel in the Web UI or in Temporal's command line: it means cancel, and has no key. */
  | { kind: 'canceled-in-temporal' };

export type TaskEvent = Command | OwnEvent;

/** Every kind of event, complete by construction. */
export const TASK_EVENT_KINDS = Object.keys({
  released: true,
  published: true,
  'publish-exhausted': true,
  'redelivery-due': true,
  'run-timer': true,
  'canceled-in-temporal': true,
  claim: true,
  message: true,
  'mark-read': true,
  cancel: true,
  result: true,
  redeliver: true,
} satisfies Record<TaskEvent['kind'], true>) as TaskEvent['kind'][];

/** What the wiring must do. Timers are not effects: they follow from `nextAlarm` alone. */
export type Effect =
  /** Publish readiness with this token. A publish under way is replaced. */
  | { type: 'publish'; deliveryEventId: string }
  /** End a publish that is still retrying. */
  | { type: 'stop-publish' };

interface Accepted {
  ok: true;
  record: TaskRecord;
  effects: Effect[];
}

type CommandOutcome = Accepted | { ok: false; code: RefusalCode };

/** `not-due` and `not-applicable` refuse events of our own: a timer that came too soon, or after things moved on. */
export type OwnRefusal = 'not-due' | 'not-applicable';
type OwnOutcome = Accepted | { ok: false; code: OwnRefusal };

export type TransitionOutcome = CommandOutcome | OwnOutcome;

/** The record of a Task that was just accepted. Its creation is its first transition (I9). */
export function createRecord(spec: TaskSpec, admission: Admission): TaskRecord {
  return {
    spec,
    admission,
    revision: 1,
    phase: { status: 'scheduled' },
    delivery: { state: 'none', eventId: null, publishedAt: null, attempts: 0, round: 0, lastError: null },
    mailbox: { lastSeq: 0, readSeq: 0, unreadBytes: 0, unreadBytesMax: unreadBytesMax(spec), messages: [] },
    verdicts: [],
    transitions: [{ revision: 1, at: spec.createdAt, from: null, to: 'scheduled', cause: 'created' }],
  };
}

/** Whether the Task has ended. */
export function isTerminal(record: TaskRecord): record is TaskRecord & { phase: EndedPhase } {
  return isTerminalStatus(record.phase.status);
}

/**
 * Applies one event. Exhaustive over (status x event); `docs/lifecycle.md` holds the table. The record handed in is
 * never changed; an event that changes nothing returns the very same record.
 */
export function transition(record: TaskRecord, event: TaskEvent, context: EventContext): TransitionOutcome {
  switch (event.kind) {
    case 'released':
      return onReleased(record, context);
    case 'published':
      return onPublished(record, event.attempts, context);
    case 'publish-exhausted':
      return onPublishExhausted(record, event, context);
    case 'redelivery-due':
      return onRedeliveryDue(record, context);
    case 'run-timer':
      return onRunTimer(record, context);
    case 'canceled-in-temporal':
      return isTerminal(record) ? refuse('not-applicable') : canceled(record, null, context);
    case 'claim':
    case 'message':
    case 'mark-read':
    case 'cancel':
    case 'result':
    case 'redeliver':
      return applyCommand(record, event, context);
    default:
      return assertNever(event);
  }
}

function applyCommand(record: TaskRecord, command: Command, context: EventContext): CommandOutcome {
  if (isTerminal(record)) return refuse('task-terminal'); // I1
  switch (command.kind) {
    case 'claim':
      return onClaim(record, command, context);
    case 'message':
      return onMessage(record, command, context);
    case 'mark-read':
      return onMarkRead(record, command);
    case 'cancel':
      return canceled(record, command, context);
    case 'result':
      return onResult(record, command, context);
    case 'redeliver':
      return onRedeliver(record, context);
    default:
      return assertNever(command);
  }
}

function onReleased(record: TaskRecord, context: EventContext): OwnOutcome {
  if (record.phase.status !== 'scheduled' || record.delivery.state !== 'none') return refuse('not-applicable');
  if (context.at < record.spec.releaseAt) return refuse('not-due'); // I6
  return deliver(record, record.delivery.eventId ?? context.newDeliveryEventId, context);
}

/** A publish that succeeded. The claim may have come first: then the notice is stale and changes nothing (I4). */
function onPublished(record: TaskRecord, attempts: number, context: EventContext): OwnOutcome {
  const { delivery, phase } = record;
  if (phase.status !== 'scheduled' && phase.status !== 'queued') return unchanged(record);
  if (delivery.state !== 'pending') return refuse('not-applicable');
  const published: Delivery = {
    state: 'published',
    eventId: delivery.eventId,
    publishedAt: context.at,
    attempts: delivery.attempts + attempts,
    round: delivery.round,
    lastError: null,
    redeliverAt: addSeconds(context.at, redeliveryDelaySeconds(context.policy, delivery.round)),
  };
  if (phase.status === 'queued') return changed({ ...record, delivery: published });
  return moved(record, { status: 'queued', queuedAt: context.at }, published, 'published', context.at);
}

/** The policy's attempts are used up. The Task stays claimable; that it was given up is visible and repairable. */
function onPublishExhausted(
  record: TaskRecord,
  failure: { attempts: number; lastError: string },
  context: EventContext,
): OwnOutcome {
  const { delivery, phase } = record;
  if (phase.status !== 'scheduled' && phase.status !== 'queued') return unchanged(record);
  if (delivery.state !== 'pending') return refuse('not-applicable');
  return changed({
    ...record,
    delivery: {
      ...exhausted(delivery, failure.lastError, context.at),
      attempts: delivery.attempts + failure.attempts,
    },
  });
}

/** Published, but nobody claimed it for the policy's time: the same token is published again, or given up. */
function onRedeliveryDue(record: TaskRecord, context: EventContext): OwnOutcome {
  const { delivery, phase } = record;
  if (phase.status !== 'queued' || delivery.state !== 'published') return refuse('not-applicable');
  if (context.at < delivery.redeliverAt) return refuse('not-due'); // I6
  if (delivery.round >= context.policy.redelivery.rounds) {
    return changed({ ...record, delivery: exhausted(delivery, 'unclaimed', context.at) });
  }
  return deliver(record, delivery.eventId, context);
}

function onRunTimer(record: TaskRecord, context: EventContext): OwnOutcome {
  const { phase } = record;
  if (phase.status !== 'running') return refuse('not-applicable');
  if (context.at < phase.timeoutAt) return refuse('not-due'); // I6
  const { queuedAt, startedAt, timeoutAt, claim } = phase;
  return ended(
    record,
    { status: 'timed_out', queuedAt, startedAt, timeoutAt, claim, completedAt: context.at },
    'run-window-exceeded',
  );
}

/** Final refusals come before the one that is not final, so that a claim that can never win is told so at once. */
function onClaim(record: TaskRecord, command: ClaimCommand, context: EventContext): CommandOutcome {
  const { delivery, phase } = record;
  if (delivery.eventId === null) return refuse('not-released'); // I3
  if (delivery.eventId !== command.deliveryEventId) return refuse('token-mismatch'); // I2
  if (phase.status === 'running' || delivery.state === 'consumed') return refuse('token-consumed'); // I2
  if (context.at > command.expiresAt) return refuse('claim-expired');
  const claim: Claim = {
    deliveryEventId: command.deliveryEventId,
    executorId: command.executorId,
    claimedAt: context.at,
    command: commandRef(command),
  };
  const { publishedAt, attempts, round, lastError, eventId } = delivery;
  return moved(
    record,
    {
      status: 'running',
      queuedAt: phase.status === 'queued' ? phase.queuedAt : null,
      startedAt: context.at,
      timeoutAt: addSeconds(context.at, record.spec.runTimeoutSeconds),
      claim,
    },
    { state: 'consumed', eventId, publishedAt, attempts, round, lastError },
    'claim-accepted',
    context.at,
    [{ type: 'stop-publish' }],
  );
}

function onMessage(record: TaskRecord, command: MessageCommand, context: EventContext): CommandOutcome {
  const { mailbox } = record;
  const revision = record.revision + 1;
  const message: KeptMessage = {
    seq: mailbox.lastSeq + 1, // I5
    messageId: command.messageId,
    at: context.at,
    body: command.body,
    revision,
    command: commandRef(command),
  };
  const unreadBytes = mailbox.unreadBytes + jsonBytes(message);
  if (mailbox.messages.length >= LIMITS.unreadMessagesMax || unreadBytes > mailbox.unreadBytesMax) {
    return refuse('mailbox-full'); // I8
  }
  const messages = [...mailbox.messages, message];
  const appended = { ...record, mailbox: { ...mailbox, lastSeq: message.seq, unreadBytes, messages } };
  // Specification, "Durable delivery needs reconciliation": a follow-up must not stay attached to work that can no
  // longer be delivered because of an inconsistency that can be repaired.
  const repaired = reconcile(appended, context);
  return { ok: true, record: { ...repaired.record, revision }, effects: repaired.effects };
}

/**
 * Frees the messages up to `upTo`; their keys go to the table of verdicts, so that a repeat is still found. A mark that
 * lies behind the present one changes nothing.
 */
function onMarkRead(record: TaskRecord, command: MarkReadCommand): CommandOutcome {
  const { mailbox } = record;
  if (command.upTo > mailbox.lastSeq) return refuse('read-mark-beyond-end');
  if (command.upTo <= mailbox.readSeq) return unchanged(record);
  const freed = mailbox.messages.filter((message) => message.seq <= command.upTo);
  const freedBytes = freed.reduce((sum, message) => sum + jsonBytes(message), 0);
  const marked: TaskRecord = {
    ...record,
    mailbox: {
      ...mailbox,
      readSeq: command.upTo,
      unreadBytes: mailbox.unreadBytes - freedBytes,
      messages: mailbox.messages.filter((message) => message.seq > command.upTo),
    },
  };
  return changed(keepVerdicts(marked, freed.map(messageVerdict)));
}

/** `command` is null when the cancellation came from Temporal's own tools. */
function canceled(
  record: TaskRecord,
  command: (CommandRef & { reason: string | null }) | null,
  context: EventContext,
): Accepted {
  return ended(
    record,
    {
      ...reached(record.phase),
      status: 'canceled',
      completedAt: context.at,
      cancellation: command === null ? { reason: null, by: 'temporal' } : { reason: command.reason, by: 'command' },
      command: command === null ? null : commandRef(command),
    },
    command === null ? 'canceled-in-temporal' : 'cancel-accepted',
  );
}

function onResult(record: TaskRecord, command: ResultCommand, context: EventContext): CommandOutcome {
  const { phase } = record;
  if (command.claimId !== null && (phase.status !== 'running' || phase.claim.command.key !== command.claimId)) {
    return refuse('claim-mismatch');
  }
  if (command.ifMailboxSeq !== null && record.mailbox.lastSeq > command.ifMailboxSeq) return refuse('unread-messages');
  const { success, summary, output, effects, error } = command;
  return ended(
    record,
    {
      ...reached(phase),
      status: success ? 'succeeded' : 'failed',
      completedAt: context.at,
      result: { success, summary, output, effects, error },
      command: commandRef(command),
    },
    'result-accepted',
  );
}

/** An operator's repair: the delivery starts over, with the same token and fresh attempts. */
function onRedeliver(record: TaskRecord, context: EventContext): CommandOutcome {
  if (record.phase.status === 'running') return refuse('task-running');
  if (context.at < record.spec.releaseAt) return refuse('not-released'); // I6
  const { eventId } = record.delivery;
  return deliver(record, eventId ?? context.newDeliveryEventId, context, { startOver: true });
}

/**
 * Repairs what the scheduler owns, and nothing else. Called at the start of every run (continue-as-new included) and on
 * a message; `redeliver` does the same on demand. A record that is consistent comes back unchanged.
 *
 * unreleased: the alarm is armed by `nextAlarm`, nothing is published · due without a token: the token is made ·
 * unclaimed and given up, or owed with no publish under way: delivered · running: the alarm is armed by `nextAlarm` ·
 * terminal: everything was cleared when it ended (I10).
 */
export function reconcile(record: TaskRecord, context: EventContext): { record: TaskRecord; effects: Effect[] } {
  const { delivery, phase, spec } = record;
  const claimable = phase.status === 'scheduled' || phase.status === 'queued';
  if (!claimable || context.at < spec.releaseAt) return { record, effects: [] };
  switch (delivery.state) {
    case 'none':
      return deliver(record, delivery.eventId ?? context.newDeliveryEventId, context);
    case 'exhausted':
      return deliver(record, delivery.eventId, context, { startOver: true });
    case 'pending': {
      if (context.publishUnderWay) return { record, effects: [] };
      return { record, effects: [{ type: 'publish', deliveryEventId: delivery.eventId }] };
    }
    case 'published':
      // Waiting for a claim: its redelivery is `nextAlarm`'s business.
      return { record, effects: [] };
    case 'consumed':
      // Cannot be: consuming and running are one transition (I2).
      return { record, effects: [] };
    default:
      return assertNever(delivery);
  }
}

/** The one alarm of a Task, and which event it brings. */
export interface Alarm {
  at: Instant;
  event: 'released' | 'redelivery-due' | 'run-timer';
}

/** The earliest of release, redelivery and run time-out: the only source of timers. Null: nothing is due by time. */
export function nextAlarm(record: TaskRecord): Alarm | null {
  const { delivery, phase, spec } = record;
  switch (phase.status) {
    case 'scheduled':
      return delivery.state === 'none' ? { at: spec.releaseAt, event: 'released' } : null;
    case 'queued':
      return delivery.state === 'published' ? { at: delivery.redeliverAt, event: 'redelivery-due' } : null;
    case 'running':
      return { at: phase.timeoutAt, event: 'run-timer' };
    case 'succeeded':
    case 'failed':
    case 'canceled':
    case 'timed_out':
      return null; // I10
    default:
      return assertNever(phase);
  }
}

/** A decided command: the record with its verdict kept, and what to do. */
export interface Decision {
  record: TaskRecord;
  effects: Effect[];
}

/**
 * Decides a command once (I7): a key that has a final verdict already changes nothing, whatever body it brings. An
 * accepted claim, message, cancel or result keeps its key in what it wrote; every other verdict goes to the bounded
 * table, oldest out first.
 */
export function decide(record: TaskRecord, command: Command, context: EventContext): Decision {
  const before = findVerdict(record, command);
  if (before !== null && isFinalVerdict(before.verdict.code)) return { record, effects: [] };
  const undecided = withoutStored(record, command);
  const outcome = applyCommand(undecided, command, context);
  if (!outcome.ok) return { record: keepVerdicts(undecided, [verdictOf(outcome.code)]), effects: [] };
  if (findHeldVerdict(outcome.record, command) !== null) return outcome;
  return { record: keepVerdicts(outcome.record, [verdictOf('accepted', outcome.record)]), effects: outcome.effects };

  function verdictOf(code: VerdictCode, after: TaskRecord = record): StoredVerdict {
    const { kind, key, fingerprint } = command;
    return { kind, key, fingerprint, code, at: context.at, revision: after.revision };
  }
}

/** Answers the verdict query about one command. */
export function answerVerdict(record: TaskRecord, question: VerdictQuestion): VerdictAnswer {
  if (!isCommandKind(question.kind)) return { found: 'unknown-command' };
  const found = findVerdict(record, { ...question, kind: question.kind });
  if (found === null) return { found: 'unknown' };
  if (found.fingerprint !== question.fingerprint) return { found: 'key-reused' };
  return { found: 'verdict', verdict: found.verdict };
}

export function isCommandKind(kind: string): kind is CommandKind {
  return (COMMAND_KINDS as readonly string[]).includes(kind);
}

interface FoundVerdict {
  fingerprint: string;
  verdict: Verdict;
}

function findVerdict(record: TaskRecord, command: { kind: CommandKind; key: string }): FoundVerdict | null {
  const stored =
    findHeldVerdict(record, command) ??
    record.verdicts.find((verdict) => verdict.kind === command.kind && verdict.key === command.key);
  if (stored === undefined) return null;
  const { fingerprint, ...verdict } = stored;
  return { fingerprint, verdict };
}

/** The verdict of an accepted command whose key is kept by what it wrote: the claim, the ending or the message. */
function findHeldVerdict(record: TaskRecord, command: { kind: CommandKind; key: string }): StoredVerdict | null {
  const { kind, key } = command;
  const { phase } = record;
  const accepted = (ref: CommandRef, at: Instant, cause: TransitionCause): StoredVerdict => ({
    kind,
    key,
    fingerprint: ref.fingerprint,
    code: 'accepted',
    at,
    revision: revisionOf(record, cause),
  });
  switch (kind) {
    case 'claim': {
      const claim = 'claim' in phase ? phase.claim : null;
      return claim?.command.key === key ? accepted(claim.command, claim.claimedAt, 'claim-accepted') : null;
    }
    case 'cancel':
      return phase.status === 'canceled' && phase.command?.key === key
        ? accepted(phase.command, phase.completedAt, 'cancel-accepted')
        : null;
    case 'result':
      return (phase.status === 'succeeded' || phase.status === 'failed') && phase.command.key === key
        ? accepted(phase.command, phase.completedAt, 'result-accepted')
        : null;
    case 'message': {
      const kept = record.mailbox.messages.find((message) => message.command.key === key);
      return kept === undefined ? null : messageVerdict(kept);
    }
    case 'mark-read':
    case 'redeliver':
      return null;
    default:
      return assertNever(kind);
  }
}

function messageVerdict({ seq, messageId, at, revision, command }: KeptMessage): StoredVerdict {
  return { kind: 'message', ...commandRef(command), code: 'accepted', at, revision, message: { messageId, seq } };
}

function revisionOf(record: TaskRecord, cause: TransitionCause): number {
  return record.transitions.findLast((entry) => entry.cause === cause)?.revision ?? record.revision;
}

function withoutStored(record: TaskRecord, command: { kind: CommandKind; key: string }): TaskRecord {
  const verdicts = record.verdicts.filter((verdict) => verdict.kind !== command.kind || verdict.key !== command.key);
  return verdicts.length === record.verdicts.length ? record : { ...record, verdicts };
}

function keepVerdicts(record: TaskRecord, verdicts: StoredVerdict[]): TaskRecord {
  return { ...record, verdicts: [...record.verdicts, ...verdicts].slice(-LIMITS.verdictsMax) };
}

/** Bytes that unread messages may take: their own cap, and what the rest of the record leaves of the record's (I8). */
function unreadBytesMax(spec: TaskSpec): number {
  const reserved =
    LIMITS.recordFixedBytes +
    jsonBytes(spec.input) +
    LIMITS.resultBytesMax +
    LIMITS.verdictsMax * LIMITS.verdictBytesMax;
  return Math.min(LIMITS.unreadBytesMax, LIMITS.recordBytesMax - reserved);
}

/** Owes a publish. With `startOver` the counts of rounds and attempts begin anew: somebody asked for it. */
function deliver(
  record: TaskRecord,
  eventId: string,
  context: EventContext,
  options: { startOver?: boolean } = {},
): Accepted {
  const { delivery } = record;
  const pending: Delivery = {
    state: 'pending',
    eventId,
    publishedAt: delivery.publishedAt,
    attempts: options.startOver === true ? 0 : delivery.attempts,
    round: options.startOver === true ? 1 : delivery.round + 1,
    lastError: delivery.lastError,
    publishUntil: addSeconds(context.at, context.policy.publish.totalSeconds),
  };
  return changed({ ...record, delivery: pending }, [{ type: 'publish', deliveryEventId: eventId }]);
}

function exhausted(delivery: Delivery & { eventId: string }, lastError: string, at: Instant): Delivery {
  const { eventId, publishedAt, attempts, round } = delivery;
  return {
    state: 'exhausted',
    eventId,
    publishedAt,
    attempts,
    round,
    lastError: lastError.slice(0, LIMITS.lastErrorLengthMax),
    exhaustedAt: at,
  };
}

/** Seconds that a published delivery waits for its claim: doubles with each round, up to the policy's maximum. */
function redeliveryDelaySeconds(policy: TaskPolicy, round: number): number {
  const { afterSeconds, maximumSeconds } = policy.redelivery;
  return Math.min(maximumSeconds, afterSeconds * 2 ** Math.max(0, round - 1));
}

/** Ends a Task: what it owed is dropped with it (I10). The token stays readable, as evidence. */
function ended(record: TaskRecord, phase: EndedPhase, cause: TransitionCause): Accepted {
  const { eventId, publishedAt, attempts, round, lastError, state } = record.delivery;
  const delivery: Delivery =
    state === 'consumed' ? record.delivery : { state: 'none', eventId, publishedAt, attempts, round, lastError };
  return moved(record, phase, delivery, cause, phase.completedAt, [{ type: 'stop-publish' }]);
}

function reached(phase: TaskPhase): { queuedAt: Instant | null; startedAt: Instant | null; claim: Claim | null } {
  return {
    queuedAt: 'queuedAt' in phase ? phase.queuedAt : null,
    startedAt: 'startedAt' in phase ? phase.startedAt : null,
    claim: 'claim' in phase ? phase.claim : null,
  };
}

/** The only place where a status is written: it records the change as it makes it (I9). */
function moved(
  record: TaskRecord,
  phase: TaskPhase,
  delivery: Delivery,
  cause: TransitionCause,
  at: Instant,
  effects: Effect[] = [],
): Accepted {
  const revision = record.revision + 1;
  const entry = { revision, at, from: record.phase.status, to: phase.status, cause };
  return {
    ok: true,
    record: { ...record, revision, phase, delivery, transitions: [...record.transitions, entry] },
    effects,
  };
}

function changed(record: TaskRecord, effects: Effect[] = []): Accepted {
  return { ok: true, record: { ...record, revision: record.revision + 1 }, effects };
}

function unchanged(record: TaskRecord): Accepted {
  return { ok: true, record, effects: [] };
}

function refuse<Code extends RefusalCode | OwnRefusal>(code: Code): { ok: false; code: Code } {
  return { ok: false, code };
}

function commandRef(command: CommandRef): CommandRef {
  return { key: command.key, fingerprint: command.fingerprint };
}

function assertNever(value: never): never {
  throw new Error(`unreachable: ${JSON.stringify(value)}`);
}
