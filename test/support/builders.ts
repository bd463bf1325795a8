/**
 * Builders for specs: a Task's specification, commands, events, contexts, and records in every status. Records come out
 * of the real lifecycle, so that none can be in a state that the lifecycle could not reach, and they are frozen deeply,
 * so that a transition that changes its input throws.
 */
import type { Command, CommandKind, VerdictAnswer } from '../../src/contracts/commands.ts';
import { addSeconds, type Instant } from '../../src/contracts/instant.ts';
import type { Admission, DeliveryState, TaskRecord, TaskSpec, TaskStatus } from '../../src/contracts/task.ts';
import type { TaskPolicy } from '../../src/contracts/workflow.ts';
import {
  answerVerdict,
  createRecord,
  decide,
  transition,
  type EventContext,
  type OwnEvent,
  type TaskEvent,
} from '../../workflows/task/lifecycle.ts';

/** When every built Task was created; `at(seconds)` counts from here. */
export const CREATED_AT: Instant = '2026-01-31T09:00:00.000Z';

/** The claim token that `aContext` hands to the transition that makes one. */
export const TOKEN = 'evt_11111111-1111-4111-8111-111111111111';
export const FORGED_TOKEN = 'evt_ffffffff-ffff-4fff-8fff-ffffffffffff';

/** The key of the claim in every built record that has one. */
export const CLAIM_ID = 'claim-key';

/** The moment so many seconds after the creation. */
export function at(seconds: number): Instant {
  return addSeconds(CREATED_AT, seconds);
}

/** Of a root that is due at once and may run for an hour. */
export function aSpec(overrides: Partial<TaskSpec> = {}): TaskSpec {
  const taskId = overrides.taskId ?? 'task-1';
  return {
    taskId,
    customerId: 'acme',
    type: 'investigation',
    queue: 'default',
    priority: 3,
    input: { incident: 'INC-7' },
    source: null,
    labels: {},
    lineage: { rootTaskId: taskId, parentTaskId: null, ancestors: [] },
    continuesTaskId: null,
    createdAt: CREATED_AT,
    releaseAt: CREATED_AT,
    runTimeoutSeconds: 3600,
    ...overrides,
  };
}

export function anAdmission(overrides: Partial<Admission> = {}): Admission {
  return {
    decision: 'admitted',
    kind: 'root',
    usage: 'not-asked',
    quota: 'not-asked',
    reason: null,
    ...overrides,
  };
}

/** The documented defaults. */
export function aPolicy(overrides: Partial<TaskPolicy> = {}): TaskPolicy {
  return {
    deliveryTaskQueue: 'holdfast-delivery',
    publish: {
      initialSeconds: 1,
      factor: 2,
      maximumSeconds: 300,
      attempts: 12,
      timeoutSeconds: 15,
      totalSeconds: 3600,
    },
    redelivery: { afterSeconds: 300, maximumSeconds: 3600, rounds: 11 },
    continueAsNewAfterSignals: 1000,
    ...overrides,
  };
}

/** A minute after the creation, with no publish under way. */
export function aContext(overrides: Partial<EventContext> = {}): EventContext {
  return { at: at(60), newDeliveryEventId: TOKEN, publishUnderWay: false, policy: aPolicy(), ...overrides };
}

type CommandOf<K extends CommandKind> = Extract<Command, { kind: K }>;
type EventOf<K extends TaskEvent['kind']> = Extract<TaskEvent, { kind: K }>;

const COMMANDS: { [K in CommandKind]: Omit<CommandOf<K>, 'kind' | 'key' | 'fingerprint'> } = {
  claim: { deliveryEventId: TOKEN, executorId: 'executor-1', expiresAt: at(10 * 365 * 24 * 3600) },
  message: { messageId: 'msg-1', body: { text: 'look at this too' } },
  'mark-read': { upTo: 1 },
  cancel: { reason: 'no longer needed' },
  result: {
    success: true,
    summary: 'done',
    output: { answer: 42 },
    effects: [{ kind: 'commit', ref: 'abc123' }],
    error: null,
    claimId: null,
    ifMailboxSeq: null,
  },
  redeliver: {},
};

/** A command that would be accepted where its kind can be: a claim with the true token, a result without a fence. */
export function aCommand<K extends CommandKind>(kind: K, overrides: Partial<CommandOf<K>> = {}): CommandOf<K> {
  return {
    kind,
    key: `${kind}-key`,
    fingerprint: `${kind}-body`,
    ...COMMANDS[kind],
    ...overrides,
  } as unknown as CommandOf<K>;
}

const OWN_EVENTS: { [K in OwnEvent['kind']]: Extract<OwnEvent, { kind: K }> } = {
  released: { kind: 'released' },
  published: { kind: 'published', attempts: 1 },
  'publish-exhausted': { kind: 'publish-exhausted', attempts: 12, lastError: 'connect ECONNREFUSED' },
  'redelivery-due': { kind: 'redelivery-due' },
  'run-timer': { kind: 'run-timer' },
  'canceled-in-temporal': { kind: 'canceled-in-temporal' },
};

/** An event of any kind: a command as `aCommand` builds it, or one of the Task's own. */
export function anEvent<K extends TaskEvent['kind']>(kind: K, overrides: Partial<EventOf<K>> = {}): EventOf<K> {
  const base: TaskEvent = kind in OWN_EVENTS ? OWN_EVENTS[kind as OwnEvent['kind']] : aCommand(kind as CommandKind);
  return { ...base, ...overrides } as EventOf<K>;
}

/** The record after an event that must be applicable. */
export function after(record: TaskRecord, event: TaskEvent, context: EventContext = aContext()): TaskRecord {
  const outcome = transition(record, event, context);
  if (!outcome.ok) throw new Error(`${event.kind} in ${record.phase.status}: ${outcome.code}`);
  return deepFreeze(outcome.record);
}

/** The record after a command, with its verdict kept, whatever it is. */
export function decided(record: TaskRecord, command: Command, context: EventContext = aContext()): TaskRecord {
  return deepFreeze(decide(record, command, context).record);
}

/** What the verdict query answers about a command. */
export function verdictOf(record: TaskRecord, { kind, key, fingerprint }: Command): VerdictAnswer {
  return answerVerdict(record, { kind, key, fingerprint });
}

export interface RecordOptions {
  spec?: Partial<TaskSpec>;
  /** Of a Task that waits for a claim; `published` where queued and `none` where scheduled, unless said otherwise. */
  delivery?: Exclude<DeliveryState, 'consumed'>;
  /** So many messages (`message-1`, ...), sent before anything else happened. */
  messages?: number;
}

/**
 * A record in this status, by the common path: released after 1 s, published after 2, claimed after 10, ended after 20
 * (`timed_out`: when the window closed). A Task that is released later than at its creation keeps these distances.
 */
export function aRecord(status: TaskStatus, options: RecordOptions = {}): TaskRecord {
  const spec = aSpec(options.spec);
  const later = (seconds: number): EventContext => aContext({ at: addSeconds(spec.releaseAt, seconds) });
  let record = deepFreeze(createRecord(spec, anAdmission()));
  for (let n = 1; n <= (options.messages ?? 0); n += 1) {
    // Before the release, so that the message itself delivers nothing.
    const early = aContext({ at: addSeconds(spec.releaseAt, -1) });
    record = decided(record, aCommand('message', { key: `message-${n}`, messageId: `msg-${n}` }), early);
  }
  const delivery = options.delivery ?? (status === 'scheduled' ? 'none' : 'published');
  if (status === 'scheduled' && delivery === 'none') return record;
  record = after(record, anEvent('released'), later(1));
  if (status === 'scheduled') return waiting(record, delivery, later(2));
  record = after(record, anEvent('published'), later(2));
  if (status === 'queued') return waiting(record, delivery, later(3));
  record = decided(record, aCommand('claim', { key: CLAIM_ID }), later(10));
  switch (status) {
    case 'running':
      return record;
    case 'succeeded':
      return decided(record, aCommand('result'), later(20));
    case 'failed':
      return decided(record, aCommand('result', { success: false, error: { message: 'no' } }), later(20));
    case 'canceled':
      return decided(record, aCommand('cancel'), later(20));
    case 'timed_out':
      return after(record, anEvent('run-timer'), later(10 + spec.runTimeoutSeconds));
    default:
      return status satisfies never;
  }
}

/** Takes a released, unclaimed record to the state of delivery that was asked for. */
function waiting(record: TaskRecord, delivery: RecordOptions['delivery'], context: EventContext): TaskRecord {
  if (record.delivery.state === delivery) return record;
  const pending = record.delivery.state === 'pending' ? record : after(record, anEvent('redeliver'), context);
  if (delivery === 'pending') return pending;
  if (delivery === 'exhausted') return after(pending, anEvent('publish-exhausted'), context);
  throw new Error(`a ${record.phase.status} Task cannot have its delivery ${delivery}`);
}

/** As far as the lifecycle tells records apart: by status and, while a Task waits for its claim, by its delivery. */
export type Situation =
  | 'scheduled, unreleased'
  | 'scheduled, due'
  | 'scheduled, pending'
  | 'scheduled, exhausted'
  | 'queued, published'
  | 'queued, pending'
  | 'queued, exhausted'
  | Exclude<TaskStatus, 'scheduled' | 'queued'>;

/**
 * Each situation once: a record with one unread message, and a context in which every timer is due that can be.
 * `scheduled, due` is the moment between the release time and its timer.
 */
export function situations(): Record<Situation, { record: TaskRecord; context: EventContext }> {
  const late = { at: at(48 * 3600) };
  const idle = aContext(late);
  const publishing = aContext({ ...late, publishUnderWay: true });
  const build = (status: TaskStatus, delivery?: RecordOptions['delivery']): TaskRecord =>
    aRecord(status, { messages: 1, ...(delivery === undefined ? {} : { delivery }) });
  return {
    'scheduled, unreleased': {
      record: aRecord('scheduled', { messages: 1, spec: { releaseAt: at(72 * 3600) } }),
      context: idle,
    },
    'scheduled, due': { record: build('scheduled'), context: idle },
    'scheduled, pending': { record: build('scheduled', 'pending'), context: publishing },
    'scheduled, exhausted': { record: build('scheduled', 'exhausted'), context: idle },
    'queued, published': { record: build('queued'), context: idle },
    'queued, pending': { record: build('queued', 'pending'), context: publishing },
    'queued, exhausted': { record: build('queued', 'exhausted'), context: idle },
    running: { record: build('running'), context: idle },
    succeeded: { record: build('succeeded'), context: idle },
    failed: { record: build('failed'), context: idle },
    canceled: { record: build('canceled'), context: idle },
    timed_out: { record: build('timed_out'), context: idle },
  };
}

/** Freezes a value and everything in it: a write to any of it throws. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const part of Object.values(value)) deepFreeze(part);
  return value;
}
