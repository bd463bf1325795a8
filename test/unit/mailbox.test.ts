import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { jsonBytes } from '../../src/contracts/json.ts';
import { LIMITS } from '../../src/contracts/limits.ts';
import type { Mailbox, Message, TaskRecord } from '../../src/contracts/task.ts';
import { decide } from '../../workflows/task/lifecycle.ts';
import { readMessages } from '../../workflows/task/mailbox.ts';
import { aCommand, aContext, aRecord, decided } from '../support/builders.ts';

/** A running Task with messages of these bodies. */
function mailboxWith(bodies: string[]): Mailbox {
  return bodies.reduce<TaskRecord>(
    (record, body, n) => decide(record, aCommand('message', { key: `m${n}`, body }), aContext()).record,
    aRecord('running'),
  ).mailbox;
}

function seqs(messages: Message[]): number[] {
  return messages.map(({ seq }) => seq);
}

/** Reads page after page, as a reader does, until a page is empty. */
function readAll(mailbox: Mailbox, limit: number): Message[][] {
  const pages: Message[][] = [];
  for (let after = 0; ;) {
    const { messages } = readMessages(mailbox, { after, limit });
    if (messages.length === 0) return pages;
    pages.push(messages);
    after = messages.at(-1)?.seq ?? after;
  }
}

describe('readMessages', () => {
  test('an empty mailbox has nothing to read', () => {
    const answer = readMessages(aRecord('queued').mailbox, { after: 0, limit: 100 });
    expect(answer).toEqual({ messages: [], lastSeq: 0, readSeq: 0 });
  });

  test('gives what comes after a number, in order, up to the limit', () => {
    const mailbox = mailboxWith(['a', 'b', 'c', 'd', 'e']);
    expect(seqs(readMessages(mailbox, { after: 1, limit: 3 }).messages)).toEqual([2, 3, 4]);
    expect(seqs(readMessages(mailbox, { after: 4, limit: 3 }).messages)).toEqual([5]);
    expect(seqs(readMessages(mailbox, { after: 5, limit: 3 }).messages)).toEqual([]);
    expect(seqs(readMessages(mailbox, { after: 99, limit: 3 }).messages)).toEqual([]);
  });

  test('messages that were marked read are gone; the numbers tell so', () => {
    const record = decided(aRecord('running', { messages: 3 }), aCommand('mark-read', { upTo: 2 }));
    const answer = readMessages(record.mailbox, { after: 0, limit: 100 });
    expect(seqs(answer.messages)).toEqual([3]);
    expect(answer).toMatchObject({ lastSeq: 3, readSeq: 2 });
  });

  test('shows no key of the command that brought a message', () => {
    const { messages } = readMessages(mailboxWith(['hello']), { after: 0, limit: 1 });
    expect(messages).toEqual([{ seq: 1, messageId: 'msg-1', at: aContext().at, body: 'hello' }]);
  });

  test('a page ends before its bytes exceed the cap, and the next goes on from there', () => {
    const mailbox = mailboxWith(Array.from({ length: 20 }, () => 'x'.repeat(LIMITS.messageBytesMax - 2)));
    expect(jsonBytes(mailbox.messages)).toBeGreaterThan(LIMITS.messagesPageBytesMax);
    const pages = readAll(mailbox, 100);
    expect(pages.map((page) => page.length)).toEqual([15, 5]);
    for (const page of pages) {
      const bytes = page.reduce((sum, message) => sum + jsonBytes(message), 0);
      expect(bytes).toBeLessThanOrEqual(LIMITS.messagesPageBytesMax);
    }
  });

  test('a message that is larger than a page is given all the same, alone', () => {
    const [first, second] = mailboxWith(['a', 'b']).messages;
    if (first === undefined || second === undefined) throw new Error('two messages were sent');
    const huge = { ...first, body: 'x'.repeat(LIMITS.messagesPageBytesMax) };
    const mailbox = { ...mailboxWith(['a', 'b']), messages: [huge, second] };
    expect(seqs(readMessages(mailbox, { after: 0, limit: 100 }).messages)).toEqual([1]);
    expect(seqs(readMessages(mailbox, { after: 1, limit: 100 }).messages)).toEqual([2]);
  });

  test('paging gives each message once, whatever the sizes and the limit', () => {
    const anySize = fc.oneof(fc.nat({ max: 200 }), fc.integer({ min: 20_000, max: LIMITS.messageBytesMax - 2 }));
    fc.assert(
      fc.property(fc.array(anySize, { maxLength: 30 }), fc.integer({ min: 1, max: 8 }), (sizes, limit) => {
        const mailbox = mailboxWith(sizes.map((size) => 'x'.repeat(size)));
        const pages = readAll(mailbox, limit);
        expect(pages.every((page) => page.length <= limit)).toBe(true);
        expect(seqs(pages.flat())).toEqual(mailbox.messages.map(({ seq }) => seq));
      }),
      { numRuns: 100 },
    );
  });
});
