/**
 * Every interleaving of what can happen to a Task, up to a depth, and random ones beyond it. After each step a checker
 * that knows the invariants I1 to I10 (header of `lifecycle.ts`), but not the code, looks at what was, what happened,
 * what came of it, and what had been acknowledged before. That it can fail is shown by lifecycles broken on purpose.
 */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  COMMAND_KINDS,
  REFUSAL_CODES,
  isFinalVerdict,
  type Command,
  type VerdictAnswer,
  type VerdictQuestion,
} from '../../src/contracts/commands.ts';
import { addSeconds, type Instant } from '../../src/contracts/instant.ts';
import { LIMITS } from '../../src/contracts/limits.ts';
import {
  DELIVERY_STATES,
  TASK_STATUSES,
  type Claim,
  type Message,
  type TaskRecord,
  type TaskStatus,
} from '../../src/contracts/task.ts';
import {
  answerVerdict,
  createRecord,
  decide,
  nextAlarm,
  reconcile,
  transition,
  type Alarm,
  type Effect,
  type EventContext,
  type TaskEvent,
} from '../../workflows/task/lifecycle.ts';
import {
  CREATED_AT,
  FORGED_TOKEN,
  TOKEN,
  aCommand,
  aPolicy,
  aSpec,
  anAdmission,
  anEvent,
  at,
  deepFreeze,
} from '../support/builders.ts';

// ---------------------------------------------------------------------------------------------------------------------
// What is walked: the lifecycle, and a world around it.

/** One step of a workflow: an event, or the start of a run, which reconciles. */
type Step = TaskEvent | { kind: 'restart' };

/** What a walk does next; time passes between steps only. */
type Move = Step | { kind: 'elapse'; seconds: number };

interface Outcome {
  record: TaskRecord;
  effects: Effect[];
}

/** The lifecycle as the workflow uses it; the broken ones are made by wrapping the real one. */
interface Subject {
  step(record: TaskRecord, step: Step, context: EventContext): Outcome;
  answer(record: TaskRecord, question: VerdictQuestion): VerdictAnswer;
  alarm(record: TaskRecord): Alarm | null;
}

const REAL: Subject = {
  step: (record, step, context) => {
    if (step.kind === 'restart') return reconcile(record, context);
    if (isCommand(step)) return decide(record, step, context);
    const outcome = transition(record, step, context);
    return outcome.ok ? outcome : { record, effects: [] };
  },
  answer: answerVerdict,
  alarm: nextAlarm,
};

function isCommand(step: Step): step is Command {
  return (COMMAND_KINDS as readonly string[]).includes(step.kind);
}

/** What was acknowledged so far: kept by the checker from the answers alone, never read back from the record. */
interface History {
  token: string | null;
  claimedBy: string | null;
  acked: Message[];
  readSeq: number;
  /** Final verdicts, as they were answered first. */
  verdicts: Record<string, { question: VerdictQuestion; answer: VerdictAnswer }>;
}

interface World {
  record: TaskRecord;
  now: Instant;
  publishUnderWay: boolean;
  history: History;
}

const RELEASE_AFTER_SECONDS = 10;
const SPEC = aSpec({ releaseAt: at(RELEASE_AFTER_SECONDS), runTimeoutSeconds: 10 });
/** Two rounds, of 10 and 15 seconds, so that a walk reaches the cap of the delay and the end of the rounds. */
const POLICY = aPolicy({ redelivery: { afterSeconds: 10, maximumSeconds: 15, rounds: 2 } });

function newWorld(): World {
  return {
    record: deepFreeze(createRecord(SPEC, anAdmission())),
    now: CREATED_AT,
    publishUnderWay: false,
    history: { token: null, claimedBy: null, acked: [], readSeq: 0, verdicts: {} },
  };
}

interface Made {
  world: World;
  broken: Invariant[];
}

/** Makes one move, as the workflow's wiring would, and has it checked. */
function make(subject: Subject, world: World, move: Move): Made {
  if (move.kind === 'elapse') return { world: { ...world, now: addSeconds(world.now, move.seconds) }, broken: [] };
  const answered = move.kind === 'published' || move.kind === 'publish-exhausted';
  const underWay = move.kind === 'restart' || answered ? false : world.publishUnderWay;
  const context: EventContext = {
    at: world.now,
    // Each event brings an id of its own, as in the workflow: a token made twice would differ.
    newDeliveryEventId: world.record.revision === 1 ? TOKEN : `${TOKEN}-${world.record.revision}`,
    publishUnderWay: underWay,
    policy: POLICY,
  };
  const { record, effects } = subject.step(world.record, move, context);
  const publishUnderWay = effects.reduce((_, effect) => effect.type === 'publish', underWay);
  const next: Outcome & { publishUnderWay: boolean } = { record, effects, publishUnderWay };
  const { history, broken } = check(subject, { before: world, step: move, context, after: next });
  return { world: { record, now: world.now, publishUnderWay, history }, broken };
}

// ---------------------------------------------------------------------------------------------------------------------
// The checker.

type Invariant = 'I1' | 'I2' | 'I3' | 'I4' | 'I5' | 'I6' | 'I7' | 'I8' | 'I9' | 'I10';

/** How far a status is along the way; terminal ones are equally far (I4). */
const RANK = {
  scheduled: 0,
  queued: 1,
  running: 2,
  succeeded: 3,
  failed: 3,
  canceled: 3,
  timed_out: 3,
} satisfies Record<TaskStatus, number>;

const ENDED_RANK = 3;

interface Observed {
  before: World;
  step: Step;
  context: EventContext;
  after: Outcome & { publishUnderWay: boolean };
}

function check(subject: Subject, seen: Observed): { history: History; broken: Invariant[] } {
  const { before, step, context, after } = seen;
  const [old, now] = [before.record, after.record];
  const broken = new Set<Invariant>();
  const hold = (invariant: Invariant, holds: boolean): void => {
    if (!holds) broken.add(invariant);
  };
  const answer = isCommand(step) ? subject.answer(now, questionOf(step)) : null;
  const history = learned(before.history, seen, answer);
  const publishes = after.effects.filter((effect) => effect.type === 'publish');
  const wasEnded = RANK[old.phase.status] === ENDED_RANK;
  const isPast = RANK[now.phase.status] >= RANK.running;
  const untouched = sameBut(old, now, 'verdicts');

  // I1: a terminal record is left alone, but for verdicts of commands that came too late.
  if (wasEnded) hold('I1', untouched && after.effects.length === 0);

  // I2: a claim enters by the claim command with the Task's token, in time, once, and stays as it was.
  const [oldClaim, newClaim] = [claimOf(old), claimOf(now)];
  if (oldClaim !== null) hold('I2', same(oldClaim, newClaim));
  else if (newClaim !== null) {
    hold('I2', step.kind === 'claim' && step.deliveryEventId === before.history.token);
    hold('I2', step.kind === 'claim' && context.at <= step.expiresAt && newClaim.command.key === step.key);
    hold('I2', RANK[old.phase.status] < RANK.running && before.history.claimedBy === null);
  }
  if (now.phase.status === 'running') hold('I2', newClaim !== null && now.delivery.state === 'consumed');
  if (step.kind === 'claim' && isAccepted(answer)) {
    hold('I2', newClaim?.command.key === step.key);
    hold('I2', before.history.claimedBy === null || before.history.claimedBy === step.key);
  }

  // I3: one token for life, made when the release is due; whatever is published bears it.
  const released = context.at >= SPEC.releaseAt;
  const token = now.delivery.eventId;
  hold('I3', before.history.token === null ? token === null || released : token === before.history.token);
  hold(
    'I3',
    publishes.every((effect) => effect.type === 'publish' && effect.deliveryEventId === token),
  );

  // I4: never backward, and what a publish answers is void once the Task runs or has ended.
  hold('I4', RANK[now.phase.status] >= RANK[old.phase.status]);
  if (RANK[old.phase.status] >= RANK.running && (step.kind === 'published' || step.kind === 'publish-exhausted')) {
    hold('I4', same(old, now) && after.effects.length === 0);
  }

  // I5: exactly the acknowledged messages, as they were, from the read mark on.
  const kept = now.mailbox.messages.map(({ seq, messageId, at: sentAt, body }) => ({
    seq,
    messageId,
    at: sentAt,
    body,
  }));
  hold('I5', same(kept, history.acked.slice(history.readSeq)));
  hold(
    'I5',
    history.acked.every(({ seq }, index) => seq === index + 1),
  );
  hold('I5', now.mailbox.lastSeq === history.acked.length && now.mailbox.readSeq === history.readSeq);

  // I6: nothing before its time.
  if (publishes.length > 0 || (old.delivery.eventId === null && token !== null)) hold('I6', released);
  if (now.phase.status === 'timed_out' && old.phase.status === 'running') {
    hold('I6', secondsBetween(old.phase.startedAt, context.at) >= SPEC.runTimeoutSeconds);
  }
  if (step.kind === 'redelivery-due' && !same(old, now)) {
    const { afterSeconds, maximumSeconds } = POLICY.redelivery;
    const waitSeconds = Math.min(maximumSeconds, afterSeconds * 2 ** (old.delivery.round - 1));
    hold('I6', secondsBetween(old.delivery.publishedAt ?? context.at, context.at) >= waitSeconds);
  }

  // I7: every final verdict is answered as it was the first time; a repeat, of whatever body, changes nothing.
  for (const known of Object.values(before.history.verdicts)) {
    hold('I7', old === now || same(subject.answer(now, known.question), known.answer));
  }
  if (isCommand(step)) {
    const known = before.history.verdicts[nameOf(step)];
    if (known === undefined) hold('I7', answer?.found === 'verdict' && answer.verdict.at === context.at);
    else {
      hold('I7', same(old, now) && after.effects.length === 0);
      if (known.question.fingerprint === step.fingerprint) hold('I7', same(answer, known.answer));
      else hold('I7', answer?.found === 'key-reused');
    }
  }

  // I8: what is counted is what is held, and it is bounded.
  if (old !== now) {
    hold('I8', bytesOf(now) <= LIMITS.recordBytesMax && now.verdicts.length <= LIMITS.verdictsMax);
    const unread = now.mailbox.messages.reduce((sum, message) => sum + bytesOf(message), 0);
    hold('I8', now.mailbox.unreadBytes === unread && unread <= now.mailbox.unreadBytesMax);
  }

  // I9: one revision a change, and each change of status listed; a refusal is no change, and a spec is for life.
  hold('I9', now.revision === old.revision + (untouched ? 0 : 1));
  const entry = { revision: now.revision, at: context.at, from: old.phase.status, to: now.phase.status };
  const added = now.transitions
    .slice(old.transitions.length)
    .map(({ revision, at: when, from, to }) => ({ revision, at: when, from, to }));
  hold('I9', same(added, old.phase.status === now.phase.status ? [] : [entry]));
  hold('I9', same(now.transitions.slice(0, old.transitions.length), old.transitions));
  hold('I9', same(now.spec, old.spec) && same(now.admission, old.admission));
  if (isCommand(step) && !isAccepted(answer)) hold('I9', untouched && after.effects.length === 0);

  // I10: what runs or has ended owes nobody a publish, and only a run has an alarm: its own.
  if (isPast) {
    const alarm = subject.alarm(now);
    hold('I10', !['pending', 'published', 'exhausted'].includes(now.delivery.state));
    hold('I10', publishes.length === 0 && !after.publishUnderWay);
    if (now.phase.status === 'running') {
      const end = addSeconds(now.phase.startedAt, SPEC.runTimeoutSeconds);
      hold('I10', same(alarm, { at: end, event: 'run-timer' }));
    } else hold('I10', alarm === null);
  }
  return { history, broken: [...broken] };
}

/** The history after a step: what its answer acknowledged is added. */
function learned(history: History, { step, after }: Observed, answer: VerdictAnswer | null): History {
  const token = history.token ?? after.record.delivery.eventId;
  const withToken = token === history.token ? history : { ...history, token };
  if (!isCommand(step) || answer?.found !== 'verdict' || !isFinalVerdict(answer.verdict.code)) return withToken;
  if (history.verdicts[nameOf(step)] !== undefined) return withToken;
  const verdicts = { ...history.verdicts, [nameOf(step)]: { question: questionOf(step), answer } };
  const next: History = { ...withToken, verdicts };
  if (answer.verdict.code !== 'accepted') return next;
  switch (step.kind) {
    case 'claim':
      return { ...next, claimedBy: history.claimedBy ?? step.key };
    case 'message': {
      const { messageId = '', seq = Number.NaN } = answer.verdict.message ?? {};
      return { ...next, acked: [...next.acked, { seq, messageId, at: answer.verdict.at, body: step.body }] };
    }
    case 'mark-read':
      return { ...next, readSeq: Math.max(next.readSeq, step.upTo) };
    case 'cancel':
    case 'result':
    case 'redeliver':
      return next;
    default:
      return step satisfies never;
  }
}

function isAccepted(answer: VerdictAnswer | null): boolean {
  return answer?.found === 'verdict' && answer.verdict.code === 'accepted';
}

function claimOf({ phase }: TaskRecord): Claim | null {
  return 'claim' in phase ? phase.claim : null;
}

function questionOf({ kind, key, fingerprint }: Command): VerdictQuestion {
  return { kind, key, fingerprint };
}

function nameOf({ kind, key }: Command): string {
  return `${kind} ${key}`;
}

function secondsBetween(from: Instant, to: Instant): number {
  return (Date.parse(to) - Date.parse(from)) / 1000;
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** Equal as they would be stored: the record is JSON, and its parts are built in one order. */
function same(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

function sameBut(one: TaskRecord, other: TaskRecord, part: keyof TaskRecord): boolean {
  return (Object.keys(one) as (keyof TaskRecord)[]).every((key) => key === part || same(one[key], other[key]));
}

// ---------------------------------------------------------------------------------------------------------------------
// The exhaustive walk.

/** Everything that may come next, at every state. Each move can come any number of times, so each is repeated too. */
const MOVES: Move[] = [
  { kind: 'elapse', seconds: 10 },
  { kind: 'restart' },
  anEvent('released'),
  anEvent('published'),
  anEvent('publish-exhausted'),
  anEvent('redelivery-due'),
  anEvent('run-timer'),
  anEvent('canceled-in-temporal'),
  aCommand('claim', { key: 'c1', fingerprint: 'true token' }),
  aCommand('claim', { key: 'c1', fingerprint: 'forged token', deliveryEventId: FORGED_TOKEN }),
  aCommand('claim', { key: 'c2', expiresAt: at(15) }),
  aCommand('claim', { key: 'c3', deliveryEventId: FORGED_TOKEN }),
  aCommand('cancel'),
  aCommand('result', { key: 'r1' }),
  aCommand('result', { key: 'r2', success: false, claimId: 'c1', ifMailboxSeq: 1 }),
  aCommand('message', { key: 'm1', messageId: 'msg-1' }),
  aCommand('message', { key: 'm2', messageId: 'msg-2' }),
  aCommand('mark-read'),
  aCommand('redeliver'),
];

/** Where a walk begins: moves that lead there, checked as well. */
const STARTS = {
  new: [],
  released: [{ kind: 'elapse', seconds: 10 }, anEvent('released')],
  queued: [{ kind: 'elapse', seconds: 10 }, anEvent('released'), anEvent('published')],
  'given up': [
    { kind: 'elapse', seconds: 10 },
    anEvent('released'),
    anEvent('published'),
    { kind: 'elapse', seconds: 10 },
    anEvent('redelivery-due'),
    anEvent('published'),
    { kind: 'elapse', seconds: 20 },
    anEvent('redelivery-due'),
  ],
  running: [
    { kind: 'elapse', seconds: 10 },
    anEvent('released'),
    aCommand('claim', { key: 'c1', fingerprint: 'true token' }),
  ],
} satisfies Record<string, Move[]>;

interface Walk {
  states: number;
  edges: number;
  /** Statuses, states of delivery, causes and verdicts that came up. */
  met: Set<string>;
  /** The first break of an invariant, with the moves that led to it. */
  failure: { broken: Invariant[]; path: Move[] } | null;
}

interface Place {
  world: World;
  path: Move[];
  /** Moves made since the Task ended. */
  sinceEnded: number;
}

/**
 * Walks breadth first over all sequences of moves up to a depth beyond each start, and up to `depthEnded` moves beyond
 * the end of a Task, where nothing may happen any more. Equal states are walked once.
 */
function walk(subject: Subject, { depth, depthEnded }: { depth: number; depthEnded: number }): Walk {
  const result: Walk = { states: 0, edges: 0, met: new Set(), failure: null };
  const seen = new Set<string>();

  /** Makes a move and has it checked; null when an invariant broke. */
  const follow = (from: Place, move: Move): Place | null => {
    const { world, broken } = make(subject, from.world, move);
    result.edges += 1;
    const place: Place = {
      world,
      path: [...from.path, move],
      sinceEnded: RANK[from.world.record.phase.status] === ENDED_RANK ? from.sinceEnded + 1 : 0,
    };
    if (broken.length === 0) return place;
    result.failure = { broken, path: place.path };
    return null;
  };

  let frontier: Place[] = [];
  const reach = (place: Place, onto: Place[]): void => {
    const name = canonical(place.world);
    if (seen.has(name)) return;
    seen.add(name);
    result.states += 1;
    note(place.world, result.met);
    if (place.sinceEnded < depthEnded) onto.push(place);
  };

  for (const moves of Object.values(STARTS) as Move[][]) {
    let place: Place = { world: newWorld(), path: [], sinceEnded: 0 };
    for (const move of moves) {
      const next = follow(place, move);
      if (next === null) return result;
      place = next;
    }
    reach(place, frontier);
  }
  for (let level = 0; level < depth; level += 1) {
    const next: Place[] = [];
    for (const place of frontier) {
      for (const move of MOVES) {
        const there = follow(place, move);
        if (there === null) return result;
        reach(there, next);
      }
    }
    frontier = next;
  }
  return result;
}

/**
 * One text for worlds that go on alike. Left out is what nothing decides on, and what each step was checked for already:
 * revisions, when a kept verdict was given, and the order of kept verdicts, which matters only when their table is full.
 */
function canonical({ record, now, publishUnderWay }: World): string {
  const { phase, delivery, mailbox, verdicts, transitions } = record;
  return JSON.stringify([
    now,
    publishUnderWay,
    phase,
    delivery,
    mailbox.readSeq,
    mailbox.messages.map(({ seq, command }) => [seq, command.key]),
    verdicts.map(({ kind, key, fingerprint, code }) => `${kind} ${key} ${fingerprint} ${code}`).toSorted(),
    transitions.map(({ cause }) => cause),
  ]);
}

function note({ record, history }: World, met: Set<string>): void {
  met.add(record.phase.status);
  met.add(record.delivery.state);
  for (const { cause } of record.transitions) met.add(cause);
  for (const { code } of record.verdicts) met.add(code);
  for (const { answer } of Object.values(history.verdicts)) {
    if (answer.found === 'verdict') met.add(answer.verdict.code);
  }
}

function toldAs({ broken, path }: { broken: Invariant[]; path: Move[] }): string {
  return `${broken.join(', ')} broken by: ${path.map((move) => ('key' in move ? nameOf(move) : move.kind)).join(' > ')}`;
}

const DEPTH = 5;
const DEPTH_ENDED = 2;

describe('all interleavings', () => {
  test(`${MOVES.length} moves, ${DEPTH} deep beyond each of ${Object.keys(STARTS).length} starts, keep I1 to I10`, () => {
    const { states, edges, met, failure } = walk(REAL, { depth: DEPTH, depthEnded: DEPTH_ENDED });
    expect(failure === null ? null : toldAs(failure)).toBeNull();
    // 107,509 states and 354,822 edges when this was written. Far fewer would mean that the walk got stuck.
    expect(states).toBeGreaterThan(90_000);
    expect(edges).toBeGreaterThan(300_000);
    // Nothing is held to be true of what never came up: only a full mailbox is out of reach at this depth.
    const expected = [...TASK_STATUSES, ...DELIVERY_STATES, ...REFUSAL_CODES.filter((code) => code !== 'mailbox-full')];
    expect(expected.filter((word) => !met.has(word))).toEqual([]);
  });
});

// ---------------------------------------------------------------------------------------------------------------------
// Random walks: longer, with more keys, more times, and an end.

const KEYS = ['k1', 'k2', 'k3'];
const anyKey = fc.constantFrom(...KEYS);
const anyFingerprint = fc.constantFrom('body', 'another body');
const anyToken = fc.constantFrom(TOKEN, TOKEN, FORGED_TOKEN);
const anyIdentity = { key: anyKey, fingerprint: anyFingerprint };

const anyCommand: fc.Arbitrary<Command> = fc.oneof(
  fc
    .record({ ...anyIdentity, deliveryEventId: anyToken, expiresAt: fc.integer({ min: 0, max: 90 }).map(at) })
    .map((overrides) => aCommand('claim', overrides)),
  fc
    .record({ ...anyIdentity, messageId: fc.constantFrom('msg-1', 'msg-2'), body: fc.string({ unit: 'binary' }) })
    .map((overrides) => aCommand('message', overrides)),
  fc.record({ ...anyIdentity, upTo: fc.nat({ max: 4 }) }).map((overrides) => aCommand('mark-read', overrides)),
  fc.record(anyIdentity).map((overrides) => aCommand('redeliver', overrides)),
);

/** What ends a Task: rare, so that most walks last. */
const anyEnding: fc.Arbitrary<Command> = fc.oneof(
  fc.record(anyIdentity).map((overrides) => aCommand('cancel', overrides)),
  fc
    .record({
      ...anyIdentity,
      success: fc.boolean(),
      claimId: fc.constantFrom(null, ...KEYS),
      ifMailboxSeq: fc.constantFrom(null, 0, 2),
    })
    .map((overrides) => aCommand('result', overrides)),
);

const anyMove: fc.Arbitrary<Move> = fc.oneof(
  { weight: 5, arbitrary: anyCommand },
  { weight: 1, arbitrary: anyEnding },
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 12 }).map((seconds): Move => ({ kind: 'elapse', seconds })) },
  { weight: 6, arbitrary: fc.constantFrom(anEvent('released'), anEvent('published'), anEvent('redelivery-due')) },
  { weight: 3, arbitrary: fc.constantFrom<Move>(anEvent('publish-exhausted'), { kind: 'restart' }) },
  { weight: 2, arbitrary: fc.constant(anEvent('run-timer')) },
);

const RANDOM: fc.Parameters<unknown> = { seed: 20260131, numRuns: 1000 };

/** Long ones for sure: an array of fast-check's own length is short most of the time. */
const anyMoves = fc.array(anyMove, { minLength: 20, maxLength: 120 });

/** All moves in turn, each checked; throws at the first that breaks an invariant. */
function makeAll(subject: Subject, moves: Move[], start: World = newWorld()): World {
  let world = start;
  for (const [index, move] of moves.entries()) {
    const made = make(subject, world, move);
    if (made.broken.length > 0) throw new Error(toldAs({ broken: made.broken, path: moves.slice(0, index + 1) }));
    world = made.world;
  }
  return world;
}

/** What happens once the faults are over: time passes, a publish succeeds, and an executor claims and reports. */
function honestMove(world: World): Move {
  const alarm = nextAlarm(world.record);
  if (world.publishUnderWay) return anEvent('published');
  if (alarm !== null && alarm.at > world.now) {
    return { kind: 'elapse', seconds: secondsBetween(world.now, alarm.at) };
  }
  if (world.record.phase.status === 'running') return aCommand('result', { key: 'honest', claimId: null });
  const token = world.record.delivery.eventId;
  if (token !== null) return aCommand('claim', { key: 'honest', deliveryEventId: token });
  return anEvent(alarm?.event ?? 'released');
}

describe('random walks', () => {
  test('keep I1 to I10', () => {
    fc.assert(
      fc.property(anyMoves, (moves) => {
        expect(() => makeAll(REAL, moves)).not.toThrow();
      }),
      RANDOM,
    );
  });

  test('are survived: once the faults are over, every Task ends within a bound', () => {
    fc.assert(
      fc.property(anyMoves, (moves) => {
        // The run starts anew, as after any outage; what was owed is published then.
        let world = makeAll(REAL, [...moves, { kind: 'restart' }]);
        for (let step = 0; step < 8 && RANK[world.record.phase.status] < ENDED_RANK; step += 1) {
          world = makeAll(REAL, [honestMove(world)], world);
        }
        expect(RANK[world.record.phase.status]).toBe(ENDED_RANK);
      }),
      RANDOM,
    );
  });

  test('do not depend on how often the record was stored and read back', () => {
    const stored: Subject = {
      ...REAL,
      step: (record, step, context) => {
        const { record: next, effects } = REAL.step(record, step, context);
        return { record: next === record ? record : (JSON.parse(JSON.stringify(next)) as TaskRecord), effects };
      },
    };
    fc.assert(
      fc.property(anyMoves, (moves) => {
        expect(makeAll(stored, moves).record).toEqual(makeAll(REAL, moves).record);
      }),
      { ...RANDOM, numRuns: 200 },
    );
  });
});

// ---------------------------------------------------------------------------------------------------------------------
// The checker can fail.

type Tamper = (out: Outcome, seen: { before: TaskRecord; step: Step; context: EventContext }) => Outcome;

/** The real lifecycle with one fault. */
function flawed(tamper: Tamper): Subject {
  return {
    ...REAL,
    step: (before, step, context) => tamper(REAL.step(before, step, context), { before, step, context }),
  };
}

/** A fault that presents the lifecycle with another input, and otherwise leaves it to itself. */
function misled(mislead: (step: Step, context: EventContext, record: TaskRecord) => [Step, EventContext]): Subject {
  return { ...REAL, step: (record, step, context) => REAL.step(record, ...mislead(step, context, record)) };
}

const status = (record: TaskRecord): TaskStatus => record.phase.status;
const isEnded = (record: TaskRecord): boolean => RANK[status(record)] === ENDED_RANK;

/** The record one revision on, as an accepted change would leave it, so that a fault shows by itself and not by I9. */
const revised = (record: TaskRecord, changes: Partial<TaskRecord>): TaskRecord => ({
  ...record,
  ...changes,
  revision: record.revision + 1,
});

const FAULTS: [name: string, invariant: Invariant, subject: Subject][] = [
  [
    'a terminal Task is scheduled again by a message',
    'I1',
    flawed((out, { before, step }) =>
      isEnded(before) && step.kind === 'message'
        ? { ...out, record: revised(out.record, { phase: { status: 'scheduled' } }) }
        : out,
    ),
  ],
  [
    'a late result overwrites the one before',
    'I1',
    flawed((out, { before, step }) =>
      step.kind === 'result' && before.phase.status === 'succeeded'
        ? {
            ...out,
            record: revised(out.record, {
              phase: { ...before.phase, result: { ...before.phase.result, summary: 'late' } },
            }),
          }
        : out,
    ),
  ],
  [
    'a second claim wins',
    'I2',
    flawed((out, { before, step, context }) =>
      step.kind === 'claim' && before.phase.status === 'running' && step.key !== before.phase.claim.command.key
        ? {
            effects: [],
            record: revised(before, {
              phase: {
                ...before.phase,
                claim: {
                  deliveryEventId: TOKEN,
                  executorId: step.executorId,
                  claimedAt: context.at,
                  command: { key: step.key, fingerprint: step.fingerprint },
                },
              },
            }),
          }
        : out,
    ),
  ],
  [
    'a forged token is as good as the true one',
    'I2',
    misled((step, context) => [step.kind === 'claim' ? { ...step, deliveryEventId: TOKEN } : step, context]),
  ],
  [
    'a claim is accepted after its expiry',
    'I2',
    misled((step, context) => [step.kind === 'claim' ? { ...step, expiresAt: '9999' } : step, context]),
  ],
  [
    'a redelivery makes a new token',
    'I3',
    flawed((out, { step, context }) =>
      step.kind === 'redeliver' && out.record.delivery.state === 'pending'
        ? {
            record: {
              ...out.record,
              delivery: { ...out.record.delivery, eventId: context.newDeliveryEventId },
            },
            effects: [{ type: 'publish', deliveryEventId: context.newDeliveryEventId }],
          }
        : out,
    ),
  ],
  [
    'a token is made while the Task is unreleased',
    'I3',
    misled((step, context) => [step, step.kind === 'message' ? { ...context, at: SPEC.releaseAt } : context]),
  ],
  [
    'what is published bears another token',
    'I3',
    flawed(({ record, effects }) => ({
      record,
      effects: effects.map((effect) =>
        effect.type === 'publish' ? { ...effect, deliveryEventId: FORGED_TOKEN } : effect,
      ),
    })),
  ],
  [
    'a stale publish puts a running Task back into the queue',
    'I4',
    flawed((out, { before, step, context }) =>
      step.kind === 'published' && status(before) === 'running'
        ? { ...out, record: revised(out.record, { phase: { status: 'queued', queuedAt: context.at } }) }
        : out,
    ),
  ],
  [
    'a stale failure to publish is noted on a running Task',
    'I4',
    flawed((out, { before, step }) =>
      step.kind === 'publish-exhausted' && status(before) === 'running'
        ? { ...out, record: revised(out.record, { delivery: { ...before.delivery, lastError: step.lastError } }) }
        : out,
    ),
  ],
  [
    'an accepted message is dropped',
    'I5',
    flawed((out, { step }) => {
      const { record } = out;
      if (step.kind !== 'claim' || record.mailbox.messages.length === 0) return out;
      return { ...out, record: { ...record, mailbox: { ...record.mailbox, messages: [], unreadBytes: 0 } } };
    }),
  ],
  [
    'messages are numbered anew when some were read',
    'I5',
    flawed((out, { step }) => {
      const { record } = out;
      if (step.kind !== 'mark-read') return out;
      const messages = record.mailbox.messages.map((message, index) => ({ ...message, seq: index + 1 }));
      return { ...out, record: { ...record, mailbox: { ...record.mailbox, messages } } };
    }),
  ],
  [
    'the newest message comes first',
    'I5',
    flawed((out) => {
      const { mailbox } = out.record;
      if (mailbox.messages.length < 2) return out;
      const messages = mailbox.messages.toSorted((one, other) => other.seq - one.seq);
      return { ...out, record: { ...out.record, mailbox: { ...mailbox, messages } } };
    }),
  ],
  [
    'the release timer is believed, however early it rings',
    'I6',
    misled((step, context) => [step, step.kind === 'released' ? { ...context, at: SPEC.releaseAt } : context]),
  ],
  [
    'the run timer is believed, however early it rings',
    'I6',
    flawed((out, { before, step, context }) => {
      if (step.kind !== 'run-timer' || before.phase.status !== 'running') return out;
      const early = transition(before, step, { ...context, at: before.phase.timeoutAt });
      if (!early.ok || early.record.phase.status !== 'timed_out') return out;
      return { ...early, record: { ...early.record, phase: { ...early.record.phase, completedAt: context.at } } };
    }),
  ],
  [
    'the redelivery alarm does not wait longer from round to round',
    'I6',
    misled((step, context, { delivery }) =>
      step.kind === 'redelivery-due' && delivery.state === 'published' && delivery.round > 1
        ? [step, { ...context, at: addSeconds(context.at, 5) }]
        : [step, context],
    ),
  ],
  [
    'a verdict is lost when a run starts anew',
    'I7',
    flawed((out, { step }) => (step.kind === 'restart' ? { ...out, record: { ...out.record, verdicts: [] } } : out)),
  ],
  [
    'a repeated command is decided again',
    'I7',
    {
      ...REAL,
      step: (record, step, context) =>
        step.kind === 'redeliver'
          ? REAL.step({ ...record, verdicts: record.verdicts.filter(({ kind }) => kind !== step.kind) }, step, context)
          : REAL.step(record, step, context),
    },
  ],
  [
    'a reused key passes for a repeat',
    'I7',
    {
      ...REAL,
      answer: (record, question) => {
        const answer = REAL.answer(record, question);
        return answer.found === 'key-reused' ? REAL.answer(record, { ...question, fingerprint: 'true token' }) : answer;
      },
    },
  ],
  [
    'a refusal leaves no verdict',
    'I7',
    flawed((out, { before, step }) =>
      isCommand(step) && out.record.revision === before.revision ? { ...out, record: before } : out,
    ),
  ],
  [
    'freed messages are still counted',
    'I8',
    flawed((out, { before, step }) => {
      const { mailbox } = out.record;
      if (step.kind !== 'mark-read') return out;
      return { ...out, record: { ...out.record, mailbox: { ...mailbox, unreadBytes: before.mailbox.unreadBytes } } };
    }),
  ],
  [
    'a change skips a revision',
    'I9',
    flawed((out, { step }) =>
      step.kind === 'redeliver' && out.effects.length > 0
        ? { ...out, record: { ...out.record, revision: out.record.revision + 1 } }
        : out,
    ),
  ],
  [
    'a change keeps the revision',
    'I9',
    flawed((out, { before, step }) =>
      step.kind === 'message' ? { ...out, record: { ...out.record, revision: before.revision } } : out,
    ),
  ],
  [
    'a change of status is not listed',
    'I9',
    flawed((out, { before, step }) =>
      step.kind === 'run-timer' ? { ...out, record: { ...out.record, transitions: before.transitions } } : out,
    ),
  ],
  [
    'a refused command changes something',
    'I9',
    flawed((out, { before, step }) =>
      step.kind === 'claim' && out.record.revision === before.revision && out.record !== before
        ? { ...out, record: { ...out.record, delivery: { ...before.delivery, attempts: 99 } } }
        : out,
    ),
  ],
  [
    'an accepted claim lets the publish go on',
    'I10',
    flawed((out, { step }) => (step.kind === 'claim' ? { ...out, effects: [] } : out)),
  ],
  [
    'a canceled Task still owes its delivery',
    'I10',
    flawed((out, { before, step }) =>
      step.kind === 'cancel' && before.delivery.state === 'pending'
        ? { ...out, record: { ...out.record, delivery: before.delivery } }
        : out,
    ),
  ],
  [
    'a timed out Task keeps its alarm',
    'I10',
    {
      ...REAL,
      alarm: ({ phase, ...record }) =>
        phase.status === 'timed_out' ? { at: phase.timeoutAt, event: 'run-timer' } : REAL.alarm({ ...record, phase }),
    },
  ],
];

describe('the checker catches a lifecycle in which', () => {
  test.each(FAULTS)('%s (%s)', (_, invariant, subject) => {
    const { failure } = walk(subject, { depth: DEPTH, depthEnded: DEPTH_ENDED });
    expect(failure?.broken).toContain(invariant);
  });

  test('at least one fault for each invariant was tried', () => {
    expect(new Set(FAULTS.map(([, invariant]) => invariant)).size).toBe(10);
  });
});
