/**
 * The lifecycle, rule by rule. The table of outcomes is written by hand from the design, not computed; all records are
 * frozen deeply, so a transition that changed its input would throw.
 */
import { describe, expect, test } from 'vitest';
import { COMMAND_KINDS, REFUSAL_CODES, type Command, type RefusalCode } from '../../src/contracts/commands.ts';
import { addSeconds } from '../../src/contracts/instant.ts';
import { jsonBytes, type Json } from '../../src/contracts/json.ts';
import { LIMITS } from '../../src/contracts/limits.ts';
import {
  DELIVERY_STATES,
  TASK_STATUSES,
  isTerminalStatus,
  type DeliveryState,
  type TaskRecord,
  type TaskSpec,
  type TaskStatus,
} from '../../src/contracts/task.ts';
import {
  TASK_EVENT_KINDS,
  createRecord,
  decide,
  isCommandKind,
  isTerminal,
  nextAlarm,
  reconcile,
  transition,
  type Alarm,
  type EventContext,
  type OwnRefusal,
  type TaskEvent,
} from '../../workflows/task/lifecycle.ts';
import {
  CLAIM_ID,
  CREATED_AT,
  FORGED_TOKEN,
  TOKEN,
  aCommand,
  aContext,
  aPolicy,
  aRecord,
  aSpec,
  after,
  anAdmission,
  anEvent,
  at,
  decided,
  deepFreeze,
  situations,
  verdictOf,
  type Situation,
} from '../support/builders.ts';

/** Status and delivery afterwards, with the effect; or nothing changes; or the refusal. */
type Expected =
  | `${TaskStatus}/${DeliveryState}${'' | ' + publish' | ' + stop-publish'}`
  | 'nothing'
  | `refused: ${RefusalCode | OwnRefusal}`;

type Row = Record<TaskEvent['kind'], Expected>;

/** A terminal status is never left (I1); an answer of a publish that comes late is no fault, so it is not refused. */
const ENDED: Row = {
  released: 'refused: not-applicable',
  published: 'nothing',
  'publish-exhausted': 'nothing',
  'redelivery-due': 'refused: not-applicable',
  'run-timer': 'refused: not-applicable',
  'canceled-in-temporal': 'refused: not-applicable',
  claim: 'refused: task-terminal',
  message: 'refused: task-terminal',
  'mark-read': 'refused: task-terminal',
  cancel: 'refused: task-terminal',
  result: 'refused: task-terminal',
  redeliver: 'refused: task-terminal',
};

const TABLE = {
  'scheduled, unreleased': {
    released: 'refused: not-due',
    published: 'refused: not-applicable',
    'publish-exhausted': 'refused: not-applicable',
    'redelivery-due': 'refused: not-applicable',
    'run-timer': 'refused: not-applicable',
    'canceled-in-temporal': 'canceled/none + stop-publish',
    claim: 'refused: not-released',
    message: 'scheduled/none',
    'mark-read': 'scheduled/none',
    cancel: 'canceled/none + stop-publish',
    result: 'succeeded/none + stop-publish',
    redeliver: 'refused: not-released',
  },
  'scheduled, due': {
    released: 'scheduled/pending + publish',
    published: 'refused: not-applicable',
    'publish-exhausted': 'refused: not-applicable',
    'redelivery-due': 'refused: not-applicable',
    'run-timer': 'refused: not-applicable',
    'canceled-in-temporal': 'canceled/none + stop-publish',
    claim: 'refused: not-released',
    message: 'scheduled/pending + publish',
    'mark-read': 'scheduled/none',
    cancel: 'canceled/none + stop-publish',
    result: 'succeeded/none + stop-publish',
    redeliver: 'scheduled/pending + publish',
  },
  'scheduled, pending': {
    released: 'refused: not-applicable',
    published: 'queued/published',
    'publish-exhausted': 'scheduled/exhausted',
    'redelivery-due': 'refused: not-applicable',
    'run-timer': 'refused: not-applicable',
    'canceled-in-temporal': 'canceled/none + stop-publish',
    claim: 'running/consumed + stop-publish',
    message: 'scheduled/pending',
    'mark-read': 'scheduled/pending',
    cancel: 'canceled/none + stop-publish',
    result: 'succeeded/none + stop-publish',
    redeliver: 'scheduled/pending + publish',
  },
  'scheduled, exhausted': {
    released: 'refused: not-applicable',
    published: 'refused: not-applicable',
    'publish-exhausted': 'refused: not-applicable',
    'redelivery-due': 'refused: not-applicable',
    'run-timer': 'refused: not-applicable',
    'canceled-in-temporal': 'canceled/none + stop-publish',
    claim: 'running/consumed + stop-publish',
    message: 'scheduled/pending + publish',
    'mark-read': 'scheduled/exhausted',
    cancel: 'canceled/none + stop-publish',
    result: 'succeeded/none + stop-publish',
    redeliver: 'scheduled/pending + publish',
  },
  'queued, published': {
    released: 'refused: not-applicable',
    published: 'refused: not-applicable',
    'publish-exhausted': 'refused: not-applicable',
    'redelivery-due': 'queued/pending + publish',
    'run-timer': 'refused: not-applicable',
    'canceled-in-temporal': 'canceled/none + stop-publish',
    claim: 'running/consumed + stop-publish',
    message: 'queued/published',
    'mark-read': 'queued/published',
    cancel: 'canceled/none + stop-publish',
    result: 'succeeded/none + stop-publish',
    redeliver: 'queued/pending + publish',
  },
  'queued, pending': {
    released: 'refused: not-applicable',
    published: 'queued/published',
    'publish-exhausted': 'queued/exhausted',
    'redelivery-due': 'refused: not-applicable',
    'run-timer': 'refused: not-applicable',
    'canceled-in-temporal': 'canceled/none + stop-publish',
    claim: 'running/consumed + stop-publish',
    message: 'queued/pending',
    'mark-read': 'queued/pending',
    cancel: 'canceled/none + stop-publish',
    result: 'succeeded/none + stop-publish',
    redeliver: 'queued/pending + publish',
  },
  'queued, exhausted': {
    released: 'refused: not-applicable',
    published: 'refused: not-applicable',
    'publish-exhausted': 'refused: not-applicable',
    'redelivery-due': 'refused: not-applicable',
    'run-timer': 'refused: not-applicable',
    'canceled-in-temporal': 'canceled/none + stop-publish',
    claim: 'running/consumed + stop-publish',
    message: 'queued/pending + publish',
    'mark-read': 'queued/exhausted',
    cancel: 'canceled/none + stop-publish',
    result: 'succeeded/none + stop-publish',
    redeliver: 'queued/pending + publish',
  },
  running: {
    released: 'refused: not-applicable',
    published: 'nothing',
    'publish-exhausted': 'nothing',
    'redelivery-due': 'refused: not-applicable',
    'run-timer': 'timed_out/consumed + stop-publish',
    'canceled-in-temporal': 'canceled/consumed + stop-publish',
    claim: 'refused: token-consumed',
    message: 'running/consumed',
    'mark-read': 'running/consumed',
    cancel: 'canceled/consumed + stop-publish',
    result: 'succeeded/consumed + stop-publish',
    redeliver: 'refused: task-running',
  },
  succeeded: ENDED,
  failed: ENDED,
  canceled: ENDED,
  timed_out: ENDED,
} as const satisfies Record<Situation, Row>;

const SITUATIONS = Object.keys(TABLE) as Situation[];

function outcomeOf(record: TaskRecord, event: TaskEvent, context: EventContext): string {
  const outcome = transition(record, event, context);
  if (!outcome.ok) return `refused: ${outcome.code}`;
  if (outcome.record === record && outcome.effects.length === 0) return 'nothing';
  const effects = outcome.effects.map((effect) => ` + ${effect.type}`).join('');
  return `${outcome.record.phase.status}/${outcome.record.delivery.state}${effects}`;
}

/** The refusal of an event; null when it was accepted. */
function refusalOf(record: TaskRecord, event: TaskEvent, context: EventContext = aContext()): string | null {
  const outcome = transition(record, event, context);
  return outcome.ok ? null : outcome.code;
}

describe('every status with every event', () => {
  const built = situations();
  const pairs = SITUATIONS.flatMap((situation) => TASK_EVENT_KINDS.map((kind) => ({ situation, kind })));

  test(`covers all ${TASK_STATUSES.length} statuses and ${TASK_EVENT_KINDS.length} events: ${pairs.length} cases`, () => {
    const statuses = new Set(SITUATIONS.map((situation) => built[situation].record.phase.status));
    expect([...statuses].toSorted()).toEqual(TASK_STATUSES.toSorted());
    const deliveries = new Set(SITUATIONS.map((situation) => built[situation].record.delivery.state));
    expect([...deliveries].toSorted()).toEqual(DELIVERY_STATES.toSorted());
    for (const row of Object.values(TABLE)) expect(Object.keys(row).toSorted()).toEqual(TASK_EVENT_KINDS.toSorted());
    expect(pairs).toHaveLength(12 * 12);
  });

  test.each(pairs)('$situation: $kind', ({ situation, kind }) => {
    const { record, context } = built[situation];
    expect(outcomeOf(record, anEvent(kind), context)).toBe(TABLE[situation][kind]);
  });

  test.each(pairs)('$situation: $kind raises the revision by one where it changes anything (I9)', (pair) => {
    const { record, context } = built[pair.situation];
    const outcome = transition(record, anEvent(pair.kind), context);
    if (!outcome.ok || outcome.record === record) return;
    expect(outcome.record.revision).toBe(record.revision + 1);
    const moved = outcome.record.phase.status !== record.phase.status;
    const added = outcome.record.transitions
      .slice(record.transitions.length)
      .map(({ revision, at: when, from, to }) => ({ revision, at: when, from, to }));
    const entry = {
      revision: record.revision + 1,
      at: context.at,
      from: record.phase.status,
      to: outcome.record.phase.status,
    };
    expect(added).toEqual(moved ? [entry] : []);
  });

  test.each(SITUATIONS.filter((situation) => !isTerminal(built[situation].record)))(
    '%s: a failure fails it',
    (name) => {
      const outcome = outcomeOf(built[name].record, anEvent('result', { success: false }), built[name].context);
      expect(outcome).toMatch(/^failed\//);
    },
  );
});

describe('a new record', () => {
  test('is scheduled, with its creation as its first transition and nothing owed', () => {
    const record = createRecord(aSpec(), anAdmission());
    expect(record.phase).toEqual({ status: 'scheduled' });
    expect(record.revision).toBe(1);
    expect(record.transitions).toEqual([
      { revision: 1, at: CREATED_AT, from: null, to: 'scheduled', cause: 'created' },
    ]);
    expect(record.delivery).toEqual({
      state: 'none',
      eventId: null,
      publishedAt: null,
      attempts: 0,
      round: 0,
      lastError: null,
    });
  });

  test('lists each change of status in order over a whole life', () => {
    expect(aRecord('succeeded').transitions.map(({ from, to, cause }) => [from, to, cause])).toEqual([
      [null, 'scheduled', 'created'],
      ['scheduled', 'queued', 'published'],
      ['queued', 'running', 'claim-accepted'],
      ['running', 'succeeded', 'result-accepted'],
    ]);
  });
});

describe('each refusal has its accepting twin', () => {
  const long = { runTimeoutSeconds: 3600 };
  const tooFull = (): TaskRecord => aRecord('queued', { messages: LIMITS.unreadMessagesMax });

  type Case = [record: TaskRecord, event: TaskEvent, context?: EventContext];
  type Twins = { refused: () => Case; accepted: () => Case };

  const TWINS: Record<RefusalCode | OwnRefusal, Twins> = {
    'token-consumed': {
      refused: () => [aRecord('running'), aCommand('claim')],
      accepted: () => [aRecord('queued'), aCommand('claim')],
    },
    'token-mismatch': {
      refused: () => [aRecord('queued'), aCommand('claim', { deliveryEventId: FORGED_TOKEN })],
      accepted: () => [aRecord('queued'), aCommand('claim', { deliveryEventId: TOKEN })],
    },
    'not-released': {
      refused: () => [aRecord('scheduled', { spec: { releaseAt: at(61) } }), aCommand('redeliver')],
      accepted: () => [aRecord('scheduled', { spec: { releaseAt: at(60) } }), aCommand('redeliver')],
    },
    'claim-expired': {
      refused: () => [aRecord('queued'), aCommand('claim', { expiresAt: at(59.999) })],
      accepted: () => [aRecord('queued'), aCommand('claim', { expiresAt: at(60) })],
    },
    'claim-mismatch': {
      refused: () => [aRecord('running'), aCommand('result', { claimId: 'another' })],
      accepted: () => [aRecord('running'), aCommand('result', { claimId: CLAIM_ID })],
    },
    'task-terminal': {
      refused: () => [aRecord('succeeded'), aCommand('result', { success: false })],
      accepted: () => [aRecord('running'), aCommand('result', { success: false })],
    },
    'task-running': {
      refused: () => [aRecord('running'), aCommand('redeliver')],
      accepted: () => [aRecord('queued'), aCommand('redeliver')],
    },
    'unread-messages': {
      refused: () => [aRecord('running', { messages: 2 }), aCommand('result', { ifMailboxSeq: 1 })],
      accepted: () => [aRecord('running', { messages: 2 }), aCommand('result', { ifMailboxSeq: 2 })],
    },
    'mailbox-full': {
      refused: () => [tooFull(), aCommand('message')],
      accepted: () => [decided(tooFull(), aCommand('mark-read', { upTo: 1 })), aCommand('message')],
    },
    'read-mark-beyond-end': {
      refused: () => [aRecord('running', { messages: 2 }), aCommand('mark-read', { upTo: 3 })],
      accepted: () => [aRecord('running', { messages: 2 }), aCommand('mark-read', { upTo: 2 })],
    },
    'not-due': {
      refused: () => [
        aRecord('running', { spec: long }),
        anEvent('run-timer'),
        aContext({ at: at(10 + 3600 - 0.001) }),
      ],
      accepted: () => [aRecord('running', { spec: long }), anEvent('run-timer'), aContext({ at: at(10 + 3600) })],
    },
    'not-applicable': {
      refused: () => [aRecord('queued'), anEvent('run-timer'), aContext({ at: at(10 + 3600) })],
      accepted: () => [aRecord('running'), anEvent('run-timer'), aContext({ at: at(10 + 3600) })],
    },
  };

  test.each([...REFUSAL_CODES, 'not-due', 'not-applicable'] as const)('%s', (code) => {
    expect(refusalOf(...TWINS[code].refused())).toBe(code);
    expect(refusalOf(...TWINS[code].accepted())).toBeNull();
  });
});

describe('claim', () => {
  test('consumes the token, starts the run and arms its end', () => {
    const record = decided(aRecord('queued'), aCommand('claim'), aContext({ at: at(60) }));
    expect(record.phase).toEqual({
      status: 'running',
      queuedAt: at(2),
      startedAt: at(60),
      timeoutAt: at(60 + 3600),
      claim: {
        deliveryEventId: TOKEN,
        executorId: 'executor-1',
        claimedAt: at(60),
        command: { key: 'claim-key', fingerprint: 'claim-body' },
      },
    });
    expect(record.delivery).toMatchObject({ state: 'consumed', eventId: TOKEN });
  });

  test('is accepted before queued was recorded: scheduled goes to running', () => {
    const record = decided(aRecord('scheduled', { delivery: 'pending' }), aCommand('claim'));
    expect(record.phase).toMatchObject({ status: 'running', queuedAt: null });
  });

  test('of a second executor is refused, and the first keeps the run (I2)', () => {
    const first = decided(aRecord('queued'), aCommand('claim', { key: 'first' }));
    const second = aCommand('claim', { key: 'second', executorId: 'executor-2' });
    const both = decided(first, second);
    expect(verdictOf(both, second)).toMatchObject({ verdict: { code: 'token-consumed' } });
    expect(both.phase).toBe(first.phase);
  });

  test('with a forged token is refused as such also when running or when it came too late', () => {
    const forged = aCommand('claim', { deliveryEventId: FORGED_TOKEN, expiresAt: at(0) });
    expect(refusalOf(aRecord('running'), forged)).toBe('token-mismatch');
    expect(refusalOf(aRecord('queued'), forged)).toBe('token-mismatch');
  });

  test('that is late for a consumed token gets the final refusal, not the one to try again', () => {
    expect(refusalOf(aRecord('running'), aCommand('claim', { expiresAt: at(0) }))).toBe('token-consumed');
  });

  test('that was read too late is decided afresh when it comes again in time', () => {
    const late = aCommand('claim', { expiresAt: at(30) });
    const refused = decided(aRecord('queued'), late, aContext({ at: at(31) }));
    expect(verdictOf(refused, late)).toMatchObject({ verdict: { code: 'claim-expired', at: at(31) } });
    expect(refused.phase.status).toBe('queued');

    const again = aCommand('claim', { expiresAt: at(70) });
    const accepted = decided(refused, again, aContext({ at: at(65) }));
    expect(verdictOf(accepted, again)).toMatchObject({ verdict: { code: 'accepted', at: at(65) } });
    expect(accepted.phase.status).toBe('running');
    expect(accepted.verdicts).toEqual([]);
  });

  test('that was read too late twice leaves one verdict, the newer', () => {
    const late = aCommand('claim', { expiresAt: at(30) });
    const once = decided(aRecord('queued'), late, aContext({ at: at(31) }));
    const twice = decided(once, late, aContext({ at: at(32) }));
    expect(twice.verdicts.map((verdict) => verdict.at)).toEqual([at(32)]);
  });

  test('that was accepted in time keeps its verdict after its expiry', () => {
    const claim = aCommand('claim', { expiresAt: at(61) });
    const running = decided(aRecord('queued'), claim, aContext({ at: at(60) }));
    const { record } = decide(running, claim, aContext({ at: at(1000) }));
    expect(record).toBe(running);
    expect(verdictOf(record, claim)).toMatchObject({ verdict: { code: 'accepted', at: at(60) } });
  });
});

describe('result', () => {
  test('is recorded from a status before running, without a claim', () => {
    for (const status of ['scheduled', 'queued'] as const) {
      const record = after(aRecord(status), aCommand('result'));
      expect(record.phase).toMatchObject({ status: 'succeeded', claim: null, startedAt: null, completedAt: at(60) });
    }
  });

  test('with a fence is refused before any claim, and when another claim won', () => {
    expect(refusalOf(aRecord('queued'), aCommand('result', { claimId: CLAIM_ID }))).toBe('claim-mismatch');
    expect(refusalOf(aRecord('running'), aCommand('result', { claimId: 'loser' }))).toBe('claim-mismatch');
    expect(refusalOf(aRecord('running'), aCommand('result', { claimId: CLAIM_ID }))).toBeNull();
    expect(refusalOf(aRecord('running'), aCommand('result', { claimId: null }))).toBeNull();
  });

  test('counts read messages as seen: only a higher number than stated refuses it', () => {
    const read = decided(aRecord('running', { messages: 2 }), aCommand('mark-read', { upTo: 2 }));
    expect(refusalOf(read, aCommand('result', { ifMailboxSeq: 2 }))).toBeNull();
    expect(refusalOf(read, aCommand('result', { ifMailboxSeq: 1 }))).toBe('unread-messages');
    expect(refusalOf(read, aCommand('result', { ifMailboxSeq: null }))).toBeNull();
  });

  test('of the fence is told before unread messages', () => {
    const command = aCommand('result', { claimId: 'loser', ifMailboxSeq: 0 });
    expect(refusalOf(aRecord('running', { messages: 1 }), command)).toBe('claim-mismatch');
  });

  test('that is processed before the time-out is recorded wins, though the window has closed', () => {
    const late = aContext({ at: at(100_000) });
    expect(after(aRecord('running'), aCommand('result'), late).phase.status).toBe('succeeded');
    const timedOut = after(aRecord('running'), anEvent('run-timer'), late);
    expect(refusalOf(timedOut, aCommand('result'), late)).toBe('task-terminal');
  });

  test('keeps what was reported and who had claimed', () => {
    expect(aRecord('failed').phase).toMatchObject({
      status: 'failed',
      claim: { command: { key: CLAIM_ID } },
      startedAt: at(10),
      completedAt: at(20),
      result: { success: false, error: { message: 'no' } },
    });
  });
});

describe('cancel', () => {
  test('by command keeps its reason; by Temporal it has neither reason nor key', () => {
    expect(aRecord('canceled').phase).toMatchObject({
      cancellation: { reason: 'no longer needed', by: 'command' },
      command: { key: 'cancel-key' },
    });
    expect(after(aRecord('running'), anEvent('canceled-in-temporal')).phase).toMatchObject({
      cancellation: { reason: null, by: 'temporal' },
      command: null,
    });
  });

  test('keeps the token of an unclaimed delivery readable and owes no publish (I10)', () => {
    const record = after(aRecord('scheduled', { delivery: 'pending' }), aCommand('cancel'));
    expect(record.delivery).toMatchObject({ state: 'none', eventId: TOKEN, round: 1 });
  });
});

describe('verdicts (I7)', () => {
  /** For each kind a command that is accepted by a queued Task with one message, and one that is refused. */
  const ACCEPTED: Record<Command['kind'], Command> = {
    claim: aCommand('claim'),
    message: aCommand('message'),
    'mark-read': aCommand('mark-read'),
    cancel: aCommand('cancel'),
    result: aCommand('result'),
    redeliver: aCommand('redeliver'),
  };
  const REFUSED: Record<Exclude<Command['kind'], 'cancel'>, [Command, TaskRecord]> = {
    claim: [aCommand('claim', { deliveryEventId: FORGED_TOKEN }), aRecord('queued')],
    message: [aCommand('message'), aRecord('failed')],
    'mark-read': [aCommand('mark-read', { upTo: 9 }), aRecord('queued')],
    result: [aCommand('result', { claimId: 'loser' }), aRecord('running')],
    redeliver: [aCommand('redeliver'), aRecord('running')],
  };

  test.each(COMMAND_KINDS)('%s: accepted once; a repeat changes nothing and gets the same verdict', (kind) => {
    const command = ACCEPTED[kind];
    const first = decided(aRecord('queued', { messages: 1 }), command);
    const verdict = verdictOf(first, command);
    expect(verdict).toMatchObject({ found: 'verdict', verdict: { kind, key: command.key, code: 'accepted' } });
    const second = decide(first, command, aContext({ at: at(5000) }));
    expect(second).toEqual({ record: first, effects: [] });
    expect(second.record).toBe(first);
    expect(verdictOf(second.record, command)).toEqual(verdict);
  });

  test.each(COMMAND_KINDS)('%s: a reused key changes nothing, and is told from a repeat', (kind) => {
    const first = decided(aRecord('queued', { messages: 1 }), ACCEPTED[kind]);
    const reused = { ...ACCEPTED[kind], fingerprint: 'another body' };
    expect(decide(first, reused, aContext()).record).toBe(first);
    expect(verdictOf(first, reused)).toEqual({ found: 'key-reused' });
    expect(verdictOf(first, ACCEPTED[kind])).toMatchObject({ found: 'verdict' });
  });

  test.each(Object.keys(REFUSED) as (keyof typeof REFUSED)[])(
    '%s: a refusal stands, also once it could pass',
    (kind) => {
      const [command, record] = REFUSED[kind];
      const refused = decided(record, command);
      const verdict = verdictOf(refused, command);
      expect(verdict).not.toMatchObject({ verdict: { code: 'accepted' } });
      expect(verdict).toMatchObject({ verdict: { revision: record.revision } });
      const later = decided(refused, aCommand('message', { key: 'other' }), aContext({ at: at(500) }));
      expect(decide(later, command, aContext({ at: at(501) })).record).toBe(later);
      expect(verdictOf(later, command)).toEqual(verdict);
    },
  );

  test('a refusal changes nothing but the table of verdicts', () => {
    const [command, record] = REFUSED.claim;
    const { verdicts, ...rest } = decided(record, command);
    const { verdicts: none, ...restBefore } = record;
    expect(rest).toEqual(restBefore);
    expect([none.length, verdicts.length]).toEqual([0, 1]);
  });

  test('the same key of two kinds is two commands', () => {
    const key = 'shared';
    const record = decided(decided(aRecord('queued'), aCommand('message', { key })), aCommand('claim', { key }));
    expect(verdictOf(record, aCommand('message', { key }))).toMatchObject({ verdict: { kind: 'message' } });
    expect(verdictOf(record, aCommand('claim', { key }))).toMatchObject({ verdict: { kind: 'claim' } });
  });

  test('a command that was never decided is unknown, not refused', () => {
    expect(verdictOf(aRecord('running'), aCommand('cancel'))).toEqual({ found: 'unknown' });
    const strange = { ...aCommand('cancel'), kind: 'explode' } as unknown as Command;
    expect(verdictOf(aRecord('running'), strange)).toEqual({ found: 'unknown-command' });
    expect(isCommandKind('toString')).toBe(false);
  });

  test('a claim, a message and the ending keep their verdicts in the ended record', () => {
    const message = aCommand('message');
    const running = decided(decided(aRecord('queued'), message), aCommand('claim'));
    const record = decided(running, aCommand('result'));
    for (const command of [message, aCommand('claim'), aCommand('result')]) {
      expect(verdictOf(record, command)).toMatchObject({ verdict: { code: 'accepted' } });
    }
    expect(verdictOf(record, aCommand('claim'))).toMatchObject({ verdict: { revision: running.revision } });
  });

  test('a message that was marked read keeps its verdict, with its number', () => {
    const message = aCommand('message', { key: 'message-1' });
    const kept = decided(aRecord('running'), message);
    const read = decided(kept, aCommand('mark-read', { upTo: 1 }), aContext({ at: at(90) }));
    expect(verdictOf(read, message)).toEqual(verdictOf(kept, message));
    expect(verdictOf(read, message)).toMatchObject({ verdict: { message: { messageId: 'msg-1', seq: 1 } } });
    expect(decide(read, message, aContext()).record).toBe(read);
  });

  test('an ended Task keeps the verdict of a command that came too late', () => {
    const record = aRecord('timed_out');
    const late = decided(record, aCommand('result'));
    expect(verdictOf(late, aCommand('result'))).toMatchObject({ verdict: { code: 'task-terminal' } });
    expect({ ...late, verdicts: [] }).toEqual(record);
  });

  test(`the table holds ${LIMITS.verdictsMax}; one more pushes the oldest out, never an accepted claim`, () => {
    const refusals = Array.from({ length: LIMITS.verdictsMax }, (_, n) => aCommand('claim', { key: `loser-${n}` }));
    const full = refusals.reduce((record, command) => decide(record, command, aContext()).record, aRecord('running'));
    expect(full.verdicts).toHaveLength(LIMITS.verdictsMax);
    const [oldest, second] = [aCommand('claim', { key: 'loser-0' }), aCommand('claim', { key: 'loser-1' })];
    expect(verdictOf(full, oldest)).toMatchObject({ found: 'verdict' });

    const over = decide(full, aCommand('redeliver'), aContext()).record;
    expect(over.verdicts).toHaveLength(LIMITS.verdictsMax);
    expect(verdictOf(over, oldest)).toEqual({ found: 'unknown' });
    expect(verdictOf(over, second)).toMatchObject({ found: 'verdict' });
    expect(verdictOf(over, aCommand('redeliver'))).toMatchObject({ found: 'verdict' });
    expect(verdictOf(over, aCommand('claim', { key: CLAIM_ID }))).toMatchObject({ verdict: { code: 'accepted' } });
  });
});

describe('mailbox', () => {
  test('numbers messages from one and frees those that are marked read (I5)', () => {
    const three = aRecord('running', { messages: 3 });
    expect(three.mailbox.messages.map(({ seq, messageId }) => [seq, messageId])).toEqual([
      [1, 'msg-1'],
      [2, 'msg-2'],
      [3, 'msg-3'],
    ]);
    const read = decided(three, aCommand('mark-read', { upTo: 2 }));
    expect(read.mailbox).toMatchObject({ lastSeq: 3, readSeq: 2 });
    expect(read.mailbox.messages).toEqual(three.mailbox.messages.slice(2));
    const more = decided(read, aCommand('message'));
    expect(more.mailbox.messages.map(({ seq }) => seq)).toEqual([3, 4]);
  });

  test('a read mark that lies behind changes nothing but its verdict', () => {
    const read = decided(aRecord('running', { messages: 3 }), aCommand('mark-read', { upTo: 2 }));
    for (const upTo of [0, 1, 2]) {
      const behind = aCommand('mark-read', { key: 'behind', upTo });
      const record = decided(read, behind);
      expect({ ...record, verdicts: read.verdicts }).toEqual(read);
      expect(verdictOf(record, behind)).toMatchObject({ verdict: { code: 'accepted' } });
    }
  });

  test(`takes ${LIMITS.unreadMessagesMax} unread messages and not one more`, () => {
    const almost = aRecord('running', { messages: LIMITS.unreadMessagesMax - 1 });
    const full = after(almost, aCommand('message'));
    expect(full.mailbox.messages).toHaveLength(LIMITS.unreadMessagesMax);
    expect(refusalOf(full, aCommand('message'))).toBe('mailbox-full');
  });

  test('takes exactly its bytes and not one more', () => {
    const filled = fillMailbox(aRecord('running', { spec: { input: 'x'.repeat(200 * 1024) } }), 'x');
    const room = filled.mailbox.unreadBytesMax - filled.mailbox.unreadBytes;
    const probe = after(filled, aCommand('message', { body: '' }));
    const overhead = probe.mailbox.unreadBytes - filled.mailbox.unreadBytes;
    const exact = aCommand('message', { body: 'x'.repeat(room - overhead) });
    const over = aCommand('message', { body: 'x'.repeat(room - overhead + 1) });
    expect(refusalOf(filled, over)).toBe('mailbox-full');
    const full = after(filled, exact);
    expect(full.mailbox.unreadBytes).toBe(full.mailbox.unreadBytesMax);
  });

  test('counts the bytes that it holds, and gives them back', () => {
    const record = aRecord('running', { messages: 5 });
    expect(record.mailbox.unreadBytes).toBe(sum(record.mailbox.messages.map(jsonBytes)));
    const read = decided(record, aCommand('mark-read', { upTo: 5 }));
    expect(read.mailbox.unreadBytes).toBe(0);
  });
});

function sum(numbers: number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** Sends messages of the largest body until the next is refused. Keys are as long as they may be. */
function fillMailbox(start: TaskRecord, character: string): TaskRecord {
  const body = textOfBytes(LIMITS.messageBytesMax, character);
  let record = start;
  for (let n = 0; ; n += 1) {
    const { record: next } = decide(record, aCommand('message', { key: longKey(5000 + n), body }), aContext());
    if (next.mailbox.messages.length === record.mailbox.messages.length) return record;
    record = next;
  }
}

/** A text whose JSON takes as many bytes as it can without exceeding the cap. */
function textOfBytes(bytes: number, character: string): string {
  const each = jsonBytes(character) - 2;
  return character.repeat(Math.floor((bytes - 2) / each));
}

function longKey(n: number): string {
  return `${n}`.padStart(LIMITS.idempotencyKeyLengthMax, 'k');
}

describe('the record stays under its cap (I8)', () => {
  const NUL = '\u0000';
  const name = (length: number): string => 'n'.repeat(length);

  /** Everything that a request may fill, at its cap. */
  const hugeSpec = (character: string): Partial<TaskSpec> => ({
    taskId: name(LIMITS.taskIdLengthMax),
    customerId: name(LIMITS.customerIdLengthMax),
    type: name(LIMITS.typeLengthMax),
    queue: name(LIMITS.queueLengthMax),
    continuesTaskId: name(LIMITS.taskIdLengthMax),
    input: textOfBytes(LIMITS.inputBytesMax, character),
    source: { kind: 'k', ref: textOfBytes(LIMITS.sourceBytesMax - 20, character) },
    labels: Object.fromEntries(
      Array.from({ length: LIMITS.labelsMax }, (_, n) => [
        `label-${n}`,
        textOfBytes(LIMITS.labelBytesMax - 10, character),
      ]),
    ),
    lineage: {
      rootTaskId: name(LIMITS.taskIdLengthMax),
      parentTaskId: name(LIMITS.taskIdLengthMax),
      ancestors: Array.from({ length: LIMITS.lineageDepthMax }, () => name(LIMITS.taskIdLengthMax)),
    },
  });

  /** A life that fills the record: a failed publish, a claim, a thousand read messages, then a full mailbox. */
  function fullRecord(character: string, messagesEach: string): TaskRecord {
    const text = (length: number): string => character.repeat(length);
    let record = aRecord('scheduled', { spec: hugeSpec(character), delivery: 'pending' });
    const lastError = text(LIMITS.lastErrorLengthMax * 2);
    record = after(record, anEvent('publish-exhausted', { lastError }));
    record = decide(
      record,
      aCommand('claim', { key: longKey(0), executorId: text(LIMITS.executorIdLengthMax) }),
      aContext(),
    ).record;
    // Verdicts of messages are the largest: a thousand of them, read, fill the table.
    for (let n = 0; n < LIMITS.unreadMessagesMax; n += 1) {
      const messageId = `msg_${'0'.repeat(36)}`;
      const fingerprint = 'f'.repeat(43);
      record = decide(
        record,
        aCommand('message', { key: longKey(n), messageId, fingerprint, body: null }),
        aContext(),
      ).record;
    }
    record = decide(record, aCommand('mark-read', { upTo: LIMITS.unreadMessagesMax }), aContext()).record;
    expect(record.verdicts).toHaveLength(LIMITS.verdictsMax);
    return fillMailbox(record, messagesEach);
  }

  test.each([
    ['plain text', 'x'],
    ['control characters, six bytes each', NUL],
    ['characters of three bytes', '\u20ac'],
    ['quotes and backslashes', '\\'],
  ])('with everything at its cap, in %s', (_, character) => {
    const full = fullRecord(character, character);
    expect(full.mailbox.messages.length).toBeGreaterThan(10);
    expect(Buffer.byteLength(JSON.stringify(full))).toBeLessThanOrEqual(LIMITS.recordBytesMax);

    const result: Json = textOfBytes(LIMITS.resultBytesMax - 100, character);
    const ended = decide(full, aCommand('result', { key: longKey(1), output: result, summary: null }), aContext());
    expect(isTerminal(ended.record)).toBe(true);
    expect(Buffer.byteLength(JSON.stringify(ended.record))).toBeLessThanOrEqual(LIMITS.recordBytesMax);
    // The twin: what was reserved is not far from what was used, so the mailbox is not needlessly small.
    expect(Buffer.byteLength(JSON.stringify(ended.record))).toBeGreaterThan(LIMITS.recordBytesMax * 0.9);
  });

  test('no verdict that the facade can cause is larger than what is reserved for one', () => {
    const verdict = {
      kind: 'message',
      key: longKey(0),
      code: 'accepted',
      at: at(0),
      revision: 1_000_000,
      message: { messageId: `msg_${'0'.repeat(36)}`, seq: 1_000_000 },
      fingerprint: 'f'.repeat(43),
    };
    expect(jsonBytes(verdict)).toBeLessThan(LIMITS.verdictBytesMax);
  });

  test('a longer error than the cap is cut', () => {
    const record = after(
      aRecord('scheduled', { delivery: 'pending' }),
      anEvent('publish-exhausted', { lastError: 'e'.repeat(5000) }),
    );
    expect(record.delivery.lastError).toHaveLength(LIMITS.lastErrorLengthMax);
  });
});

describe('reconcile', () => {
  const publish = { type: 'publish', deliveryEventId: TOKEN };

  test('unreleased: arms the timer and publishes nothing', () => {
    const record = aRecord('scheduled', { spec: { releaseAt: at(61) } });
    expect(reconcile(record, aContext())).toEqual({ record, effects: [] });
    expect(nextAlarm(record)).toEqual({ at: at(61), event: 'released' });
  });

  test('due without a token: makes it, and owes a publish', () => {
    const record = aRecord('scheduled', { spec: { releaseAt: at(60) } });
    const repaired = reconcile(record, aContext());
    expect(repaired.effects).toEqual([publish]);
    expect(repaired.record.delivery).toMatchObject({ state: 'pending', eventId: TOKEN, round: 1 });
    expect(repaired.record.revision).toBe(record.revision + 1);
  });

  test.each(['scheduled', 'queued'] as const)('%s with no publish under way: publishes what is owed', (status) => {
    const record = aRecord(status, { delivery: 'pending' });
    expect(reconcile(record, aContext())).toEqual({ record, effects: [publish] });
    // The twin: under way, there is nothing to repair.
    expect(reconcile(record, aContext({ publishUnderWay: true }))).toEqual({ record, effects: [] });
  });

  test('a publish that is scheduled anew keeps its end, its rounds and its attempts', () => {
    const record = aRecord('scheduled', { delivery: 'pending' });
    const repaired = reconcile(record, aContext({ at: at(1000) }));
    expect(repaired.record.delivery).toEqual({
      state: 'pending',
      eventId: TOKEN,
      publishedAt: null,
      attempts: 0,
      round: 1,
      lastError: null,
      publishUntil: at(1 + 3600),
    });
  });

  test.each(['scheduled', 'queued'] as const)('%s and given up: delivers anew with the same token', (status) => {
    const record = aRecord(status, { delivery: 'exhausted' });
    const repaired = reconcile(record, aContext({ newDeliveryEventId: FORGED_TOKEN }));
    expect(repaired.effects).toEqual([publish]);
    expect(repaired.record.delivery).toMatchObject({ state: 'pending', eventId: TOKEN, round: 1, attempts: 0 });
    expect(repaired.record.phase.status).toBe(status);
  });

  test('published and unclaimed: leaves it to the redelivery alarm', () => {
    const record = aRecord('queued');
    expect(reconcile(record, aContext({ at: at(100_000) })).record).toBe(record);
    expect(nextAlarm(record)).toMatchObject({ event: 'redelivery-due' });
  });

  test('running: arms the run timer and publishes nothing', () => {
    const record = aRecord('running');
    expect(reconcile(record, aContext({ at: at(100_000) }))).toEqual({ record, effects: [] });
    expect(nextAlarm(record)).toEqual({ at: at(10 + 3600), event: 'run-timer' });
  });

  test.each(TASK_STATUSES.filter(isTerminalStatus))('%s: nothing is left to clear', (status) => {
    const record = aRecord(status);
    expect(reconcile(record, aContext({ at: at(100_000) }))).toEqual({ record, effects: [] });
    expect(nextAlarm(record)).toBeNull();
    expect(['none', 'consumed']).toContain(record.delivery.state);
  });

  test('a second pass changes nothing', () => {
    for (const { record, context } of Object.values(situations())) {
      const once = reconcile(record, context);
      const twice = reconcile(once.record, { ...context, publishUnderWay: true });
      expect(twice).toEqual({ record: once.record, effects: [] });
    }
  });

  test('a message repairs in the same step: one revision, and the message is kept', () => {
    const record = aRecord('queued', { delivery: 'exhausted' });
    const decision = decide(record, aCommand('message'), aContext());
    expect(decision.effects).toEqual([publish]);
    expect(decision.record.revision).toBe(record.revision + 1);
    expect(decision.record.mailbox.messages).toHaveLength(1);
  });
});

describe('the next alarm', () => {
  const ALARMS = {
    'scheduled, unreleased': { at: at(72 * 3600), event: 'released' },
    'scheduled, due': { at: CREATED_AT, event: 'released' },
    'scheduled, pending': null,
    'scheduled, exhausted': null,
    'queued, published': { at: at(2 + 300), event: 'redelivery-due' },
    'queued, pending': null,
    'queued, exhausted': null,
    running: { at: at(10 + 3600), event: 'run-timer' },
    succeeded: null,
    failed: null,
    canceled: null,
    timed_out: null,
  } satisfies Record<Situation, Alarm | null>;

  test.each(SITUATIONS)('%s', (situation) => {
    expect(nextAlarm(situations()[situation].record)).toEqual(ALARMS[situation]);
  });

  test.each(SITUATIONS)(
    '%s: the event that an alarm brings is accepted at its time and refused before (I6)',
    (name) => {
      const { record } = situations()[name];
      const alarm = nextAlarm(record);
      if (alarm === null) return;
      expect(refusalOf(record, anEvent(alarm.event), aContext({ at: addSeconds(alarm.at, -0.001) }))).toBe('not-due');
      expect(refusalOf(record, anEvent(alarm.event), aContext({ at: alarm.at }))).toBeNull();
    },
  );
});

describe('redelivery', () => {
  const policy = aPolicy({ redelivery: { afterSeconds: 300, maximumSeconds: 3600, rounds: 6 } });

  /** Publishes and lets each round go by unclaimed; the waits in seconds, and how it ended. */
  function untilExhausted(start: TaskRecord): { waits: number[]; record: TaskRecord } {
    const waits: number[] = [];
    let record = start;
    let now = 2;
    for (;;) {
      record = after(record, anEvent('published'), aContext({ at: at(now), policy }));
      const alarm = nextAlarm(record);
      if (alarm === null) throw new Error('a published delivery has an alarm');
      waits.push((Date.parse(alarm.at) - Date.parse(at(now))) / 1000);
      now += waits.at(-1) ?? 0;
      record = after(record, anEvent('redelivery-due'), aContext({ at: at(now), policy }));
      if (record.delivery.state === 'exhausted') return { waits, record };
    }
  }

  test('waits twice as long each round up to the cap, then is given up after the rounds of the policy', () => {
    const { waits, record } = untilExhausted(aRecord('scheduled', { delivery: 'pending' }));
    expect(waits).toEqual([300, 600, 1200, 2400, 3600, 3600]);
    expect(record.phase.status).toBe('queued');
    expect(record.delivery).toMatchObject({ eventId: TOKEN, round: 6, attempts: 6, lastError: 'unclaimed' });
    expect(nextAlarm(record)).toBeNull();
  });

  test('starts over after a redeliver command: fresh rounds, fresh attempts, the same token', () => {
    const { record } = untilExhausted(aRecord('scheduled', { delivery: 'pending' }));
    const again = decided(record, aCommand('redeliver'), aContext({ policy, newDeliveryEventId: FORGED_TOKEN }));
    expect(again.delivery).toMatchObject({ state: 'pending', eventId: TOKEN, round: 1, attempts: 0 });
    expect(untilExhausted(again).waits).toHaveLength(6);
  });

  test('a Task whose delivery was given up can still be claimed with its token', () => {
    const { record } = untilExhausted(aRecord('scheduled', { delivery: 'pending' }));
    expect(after(record, aCommand('claim')).phase.status).toBe('running');
  });

  test('queuedAt is the first publication; publishedAt is the last', () => {
    const queued = after(aRecord('queued', { delivery: 'pending' }), anEvent('published'), aContext({ at: at(700) }));
    expect(queued.phase).toEqual({ status: 'queued', queuedAt: at(2) });
    expect(queued.delivery.publishedAt).toBe(at(700));
  });

  test('attempts add up over the rounds, and a success clears the last error', () => {
    const first = after(aRecord('scheduled', { delivery: 'pending' }), anEvent('published', { attempts: 3 }));
    expect(first.delivery).toMatchObject({ attempts: 3, lastError: null });
    const second = after(first, anEvent('redelivery-due'), aContext({ at: at(10_000) }));
    const failed = after(second, anEvent('publish-exhausted', { attempts: 4, lastError: 'down' }));
    expect(failed.delivery).toMatchObject({ attempts: 7, lastError: 'down', publishedAt: at(60) });
    const repaired = after(failed, aCommand('redeliver'));
    expect(after(repaired, anEvent('published')).delivery).toMatchObject({ attempts: 1, lastError: null });
  });
});

describe('a token is for life (I3)', () => {
  /** Tokens of a record after each event that it accepts, and after a repair; contexts bring another one. */
  function tokensAfterAll(record: TaskRecord, context: EventContext): Set<string | null> {
    const bringing = { ...context, newDeliveryEventId: FORGED_TOKEN };
    const outcomes = TASK_EVENT_KINDS.map((kind) => transition(record, anEvent(kind), bringing));
    const records = outcomes.flatMap((outcome) => (outcome.ok ? [outcome.record] : []));
    return new Set([...records, reconcile(record, bringing).record].map(({ delivery }) => delivery.eventId));
  }

  test('nothing makes one before the release', () => {
    const { record, context } = situations()['scheduled, unreleased'];
    expect(tokensAfterAll(record, context)).toEqual(new Set([null]));
  });

  const withToken = Object.values(situations()).filter(({ record }) => record.delivery.eventId !== null);
  test.each(withToken)('nothing replaces it: $record.phase.status, $record.delivery.state', ({ record, context }) => {
    expect(tokensAfterAll(record, context)).toEqual(new Set([TOKEN]));
  });
});

test('no input is changed: records, events and contexts are frozen, deeply', () => {
  for (const situation of Object.values(situations())) {
    const { record, context } = deepFreeze(situation);
    expect(Object.isFrozen(record.mailbox.messages)).toBe(true);
    expect(() => reconcile(record, context)).not.toThrow();
    for (const kind of TASK_EVENT_KINDS) {
      const event = deepFreeze(anEvent(kind));
      expect(() => transition(record, event, context)).not.toThrow();
    }
    for (const kind of COMMAND_KINDS) {
      const command = deepFreeze(aCommand(kind));
      expect(() => decide(record, command, context)).not.toThrow();
    }
  }
});
