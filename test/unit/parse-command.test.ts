/** What a signal made by hand can hold: never an exception, and never a command that is not of the form. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { COMMAND_KINDS, type Command, type CommandKind } from '../../src/contracts/commands.ts';
import { jsonBytes } from '../../src/contracts/json.ts';
import { LIMITS } from '../../src/contracts/limits.ts';
import { parseCommand } from '../../workflows/task/parse-command.ts';
import { FORGED_TOKEN, aCommand } from '../support/builders.ts';

type Fields = Record<string, unknown>;

/** What a facade signals: the command without its kind, which is the signal's name. */
function payloadOf(kind: CommandKind): Fields {
  const { kind: _kind, ...payload } = aCommand(kind);
  return payload;
}

const TWO_MEGABYTES = 'x'.repeat(2_000_000);
/** A value of each JSON type. */
const ALL_TYPES: Record<string, unknown> = {
  null: null,
  boolean: true,
  number: 7,
  fraction: 0.5,
  negative: -1,
  text: 'text',
  'empty text': '',
  list: [],
  object: {},
  'huge text': TWO_MEGABYTES,
};

/** For each field of each kind, the values of `ALL_TYPES` that are of its form; every other is refused. */
const WELL_FORMED = {
  claim: {
    key: ['text'],
    fingerprint: ['text'],
    deliveryEventId: ['text'],
    executorId: ['null', 'text', 'empty text'],
    expiresAt: [], // of a form of its own, below
  },
  message: {
    key: ['text'],
    fingerprint: ['text'],
    messageId: ['text'],
    body: ['null', 'boolean', 'number', 'fraction', 'negative', 'text', 'empty text', 'list', 'object'],
  },
  'mark-read': { key: ['text'], fingerprint: ['text'], upTo: ['number'] },
  cancel: { key: ['text'], fingerprint: ['text'], reason: ['null', 'text', 'empty text'] },
  result: {
    key: ['text'],
    fingerprint: ['text'],
    success: ['boolean'],
    summary: ['null', 'text', 'empty text'],
    output: ['null', 'boolean', 'number', 'fraction', 'negative', 'text', 'empty text', 'list', 'object'],
    effects: ['list'],
    error: ['null', 'boolean', 'number', 'fraction', 'negative', 'text', 'empty text', 'list', 'object'],
    claimId: ['null', 'text', 'empty text'],
    ifMailboxSeq: ['null', 'number'],
  },
  redeliver: { key: ['text'], fingerprint: ['text'] },
} satisfies {
  [K in CommandKind]: Record<Exclude<keyof Extract<Command, { kind: K }>, 'kind'>, (keyof typeof ALL_TYPES)[]>;
};

/** A field left out is refused, but for those that stand for null. */
const MAY_BE_ABSENT = new Set(['result output', 'result error']);

const fieldCases = COMMAND_KINDS.flatMap((kind) =>
  Object.entries<string[]>(WELL_FORMED[kind]).map(([field, types]) => ({ kind, field, types })),
);

describe.each(COMMAND_KINDS)('%s', (kind) => {
  test('a well-formed signal is the command', () => {
    expect(parseCommand(kind, payloadOf(kind))).toEqual(aCommand(kind));
  });

  test.each([
    ['null', null],
    ['undefined', undefined],
    ['text', 'x'],
    ['a number', 0],
    ['true', true],
    ['a list', []],
    ['a list of a well-formed one', [payloadOf(kind)]],
    ['an empty object', {}],
    ['2 MB of text', TWO_MEGABYTES],
    ['2 MB of text in an object', { text: TWO_MEGABYTES }],
    ['a well-formed one as text', JSON.stringify(payloadOf(kind))],
  ])('%s is refused', (_, payload) => {
    expect(parseCommand(kind, payload)).toBeNull();
  });

  test('a field that does not belong to it is dropped, its own kind among them', () => {
    const payload = { ...payloadOf(kind), kind: 'cancel', status: 'succeeded', constructor: 'x', toString: 'x' };
    expect(parseCommand(kind, payload)).toEqual(aCommand(kind));
  });

  test('fields that hang on a key named __proto__ are not its fields', () => {
    const text = `{"__proto__": ${JSON.stringify(payloadOf(kind))}}`;
    expect(parseCommand(kind, JSON.parse(text))).toBeNull();
    const beside = JSON.parse(`{"__proto__": {"key": "other"}, ${JSON.stringify(payloadOf(kind)).slice(1)}`) as unknown;
    expect(parseCommand(kind, beside)).toEqual(aCommand(kind));
    expect(({} as Fields)['key']).toBeUndefined();
  });

  test.each(['', ' ', 'two words', 'caf\u00e9', 'a"b', 'a\\b', 'line\n', 'k'.repeat(129), '\u0000'])(
    'the key %j is refused',
    (key) => {
      expect(parseCommand(kind, { ...payloadOf(kind), key })).toBeNull();
    },
  );

  test.each(['k', 'k'.repeat(128), "~!#$%&'()*+,-./:;<=>?@[]^_`{|}"])('the key %j is taken', (key) => {
    expect(parseCommand(kind, { ...payloadOf(kind), key })).toMatchObject({ key });
  });

  test('no JSON makes it throw', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary' }), (payload) => {
        expect(parseCommand(kind, payload)).toBeNull();
      }),
      { numRuns: 300 },
    );
  });

  test('no JSON in place of one of its fields makes it throw', () => {
    const anyField = fc.constantFrom(...Object.keys(WELL_FORMED[kind]));
    fc.assert(
      fc.property(anyField, fc.jsonValue({ stringUnit: 'binary' }), (field, value) => {
        expect(() => parseCommand(kind, { ...payloadOf(kind), [field]: value })).not.toThrow();
      }),
      { numRuns: 500 },
    );
  });
});

describe('each field of each command', () => {
  test.each(fieldCases)('$kind: $field is taken as $types and as nothing else', ({ kind, field, types }) => {
    const taken = Object.keys(ALL_TYPES).filter(
      (type) => parseCommand(kind, { ...payloadOf(kind), [field]: ALL_TYPES[type] }) !== null,
    );
    expect(taken).toEqual(types);
  });

  test.each(fieldCases)('$kind: without $field', ({ kind, field }) => {
    const { [field]: _absent, ...payload } = payloadOf(kind);
    const expected = MAY_BE_ABSENT.has(`${kind} ${field}`) ? { ...aCommand(kind), [field]: null } : null;
    expect(parseCommand(kind, payload)).toEqual(expected);
  });
});

describe('caps, at the limit and one beyond', () => {
  const isTaken = (kind: CommandKind, fields: Fields): boolean =>
    parseCommand(kind, { ...payloadOf(kind), ...fields }) !== null;

  /** A text whose JSON takes this many bytes: control characters take six each, the rest is plain. */
  function controlText(bytes: number): string {
    const inner = bytes - 2;
    return '\u0000'.repeat(Math.floor(inner / 6)) + 'x'.repeat(inner % 6);
  }

  test.each([
    ['fingerprint', 'cancel', 43],
    ['deliveryEventId', 'claim', 128],
    ['executorId', 'claim', LIMITS.executorIdLengthMax],
    ['messageId', 'message', 48],
    ['claimId', 'result', LIMITS.idempotencyKeyLengthMax],
  ] as const)('%s of a %s: %i characters', (field, kind, lengthMax) => {
    expect(isTaken(kind, { [field]: 'x'.repeat(lengthMax) })).toBe(true);
    expect(isTaken(kind, { [field]: 'x'.repeat(lengthMax + 1) })).toBe(false);
  });

  test('a message: bytes of its JSON, so control characters count six', () => {
    const max = LIMITS.messageBytesMax;
    expect(isTaken('message', { body: 'x'.repeat(max - 2) })).toBe(true);
    expect(isTaken('message', { body: 'x'.repeat(max - 1) })).toBe(false);
    expect(jsonBytes(controlText(max))).toBe(max);
    expect(isTaken('message', { body: controlText(max) })).toBe(true);
    expect(isTaken('message', { body: controlText(max + 1) })).toBe(false);
  });

  test('a reason: bytes of its JSON', () => {
    expect(isTaken('cancel', { reason: controlText(LIMITS.reasonBytesMax) })).toBe(true);
    expect(isTaken('cancel', { reason: controlText(LIMITS.reasonBytesMax + 1) })).toBe(false);
  });

  test('a result: bytes of all that was reported together', () => {
    const empty = { success: true, summary: null, output: '', effects: [], error: '' };
    const room = LIMITS.resultBytesMax - jsonBytes(empty);
    const half = Math.floor(room / 2);
    const fields = { ...empty, output: 'x'.repeat(half), error: 'x'.repeat(room - half) };
    expect(isTaken('result', fields)).toBe(true);
    expect(isTaken('result', { ...fields, error: `${fields.error}x` })).toBe(false);
  });

  test('a read mark: a whole number from zero on that JSON keeps exactly', () => {
    for (const upTo of [0, 1, Number.MAX_SAFE_INTEGER]) expect(isTaken('mark-read', { upTo })).toBe(true);
    for (const upTo of [-1, 1.5, Number.MAX_SAFE_INTEGER + 1, 1e300, '1']) {
      expect(isTaken('mark-read', { upTo })).toBe(false);
    }
  });

  test('effects of a result: how many, and each of the form', () => {
    const effect = { kind: 'commit', ref: 'abc', note: 'pushed' };
    expect(isTaken('result', { effects: Array.from({ length: LIMITS.effectsMax }, () => effect) })).toBe(true);
    expect(isTaken('result', { effects: Array.from({ length: LIMITS.effectsMax + 1 }, () => effect) })).toBe(false);
    expect(isTaken('result', { effects: [{ kind: 'commit', ref: 'abc' }] })).toBe(true);
    for (const odd of [null, 'x', [], {}, { kind: 'commit' }, { ...effect, ref: 1 }, { ...effect, note: null }]) {
      expect(isTaken('result', { effects: [effect, odd] })).toBe(false);
    }
  });

  test('JSON that is nested too deep for a stack is refused, not thrown', () => {
    const nested = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels));
    for (const [kind, field] of [
      ['message', 'body'],
      ['result', 'output'],
      ['result', 'error'],
    ] as const) {
      expect(isTaken(kind, { [field]: nested(LIMITS.jsonDepthMax) })).toBe(true);
      for (const levels of [LIMITS.jsonDepthMax * 2, 20_000])
        expect(isTaken(kind, { [field]: nested(levels) })).toBe(false);
    }
  });

  test('ids of the facade have their form, so that a verdict stays under its cap', () => {
    for (const odd of ['', 'a b', 'a"', '\u0000'.repeat(40), 'é', 'a\n']) {
      expect(isTaken('cancel', { fingerprint: odd })).toBe(false);
      expect(isTaken('message', { messageId: odd })).toBe(false);
    }
  });

  test('an expiry is an instant: any other text would never expire', () => {
    expect(isTaken('claim', { expiresAt: '2026-01-31T09:00:00.000Z' })).toBe(true);
    for (const odd of ['', 'zzz', '2026-01-31', '2026-01-31T09:00:00Z', '2026-01-31T09:00:00.000+01:00']) {
      expect(isTaken('claim', { expiresAt: odd })).toBe(false);
    }
  });

  test('a token is text, not known to be the true one: that is for the lifecycle to say', () => {
    expect(isTaken('claim', { deliveryEventId: FORGED_TOKEN })).toBe(true);
  });
});
