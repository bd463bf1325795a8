import { describe, expect, test } from 'vitest';
import { TASK_STATUSES, type TaskRecord } from '../../src/contracts/task.ts';
import { viewOf } from '../../workflows/task/view.ts';
import {
  CREATED_AT,
  FORGED_TOKEN,
  TOKEN,
  aCommand,
  aContext,
  aRecord,
  after,
  anEvent,
  at,
  decided,
  deepFreeze,
  situations,
} from '../support/builders.ts';

const SECRET = 'secret-key';
const BODY = 'secret-fingerprint';
const identity = (name: string): { key: string; fingerprint: string } => ({
  key: `${SECRET}-${name}`,
  fingerprint: `${BODY}-${name}`,
});

/** A record that holds keys and fingerprints wherever one can: messages read and unread, refusals, a claim. */
function secretive(): TaskRecord {
  const commands = [
    aCommand('message', identity('m1')),
    aCommand('message', identity('m2')),
    aCommand('mark-read', identity('read')),
    aCommand('redeliver', identity('redeliver')),
    aCommand('claim', { ...identity('forged'), deliveryEventId: FORGED_TOKEN }),
    aCommand('claim', identity('claim')),
    aCommand('claim', identity('loser')),
  ];
  return commands.reduce((record, command) => decided(record, command), aRecord('queued'));
}

describe('no view shows a claim id, a key or a fingerprint', () => {
  const ENDINGS: Record<string, (record: TaskRecord) => TaskRecord> = {
    running: (record) => record,
    succeeded: (record) => decided(record, aCommand('result', identity('end'))),
    failed: (record) => decided(record, aCommand('result', { ...identity('end'), success: false })),
    canceled: (record) => decided(record, aCommand('cancel', identity('end'))),
    timed_out: (record) => after(record, anEvent('run-timer'), aContext({ at: at(100_000) })),
  };

  test.each(Object.entries(ENDINGS))('%s', (status, end) => {
    const record = end(secretive());
    const shown = JSON.stringify(viewOf(record));
    expect(record.phase.status).toBe(status);
    // The twin: the record does hold them.
    expect(JSON.stringify(record)).toContain(SECRET);
    expect(JSON.stringify(record)).toContain(BODY);
    expect(shown).not.toContain(SECRET);
    expect(shown).not.toContain(BODY);
  });

  test('nor bodies of messages, which have a route of their own', () => {
    const record = decided(aRecord('queued'), aCommand('message', { body: 'for the executor' }));
    expect(JSON.stringify(viewOf(record))).not.toContain('for the executor');
  });
});

describe('the view', () => {
  test('has the same fields in every status, none of them undefined', () => {
    const fields = Object.keys(viewOf(aRecord('scheduled')));
    for (const status of TASK_STATUSES) {
      const view = viewOf(aRecord(status));
      expect(view.status).toBe(status);
      expect(Object.keys(view)).toEqual(fields);
      expect(view).toEqual(JSON.parse(JSON.stringify(view)));
    }
  });

  test('of a new Task: nothing has happened, and the release is the next alarm', () => {
    expect(viewOf(aRecord('scheduled'))).toMatchObject({
      revision: 1,
      queuedAt: null,
      startedAt: null,
      completedAt: null,
      timeoutAt: null,
      nextAlarmAt: CREATED_AT,
      claim: null,
      result: null,
      cancellation: null,
      delivery: { eventId: null, state: 'none', nextAttemptAt: null },
      mailbox: { lastSeq: 0, readSeq: 0, unread: 0 },
    });
  });

  test('of a queued Task: when it is published again', () => {
    expect(viewOf(aRecord('queued'))).toMatchObject({
      queuedAt: at(2),
      nextAlarmAt: at(302),
      delivery: { eventId: TOKEN, state: 'published', publishedAt: at(2), attempts: 1, nextAttemptAt: at(302) },
    });
  });

  test('of a running Task: who claimed, and when its window closes', () => {
    expect(viewOf(aRecord('running', { messages: 2 }))).toMatchObject({
      startedAt: at(10),
      timeoutAt: at(3610),
      nextAlarmAt: at(3610),
      claim: { deliveryEventId: TOKEN, executorId: 'executor-1', claimedAt: at(10) },
      delivery: { state: 'consumed', nextAttemptAt: null },
      mailbox: { lastSeq: 2, readSeq: 0, unread: 2 },
    });
  });

  test('of an ended Task: what it had reached, and no alarm', () => {
    expect(viewOf(aRecord('timed_out'))).toMatchObject({
      queuedAt: at(2),
      startedAt: at(10),
      completedAt: at(3610),
      timeoutAt: at(3610),
      nextAlarmAt: null,
    });
    expect(viewOf(aRecord('canceled'))).toMatchObject({
      cancellation: { reason: 'no longer needed', by: 'command' },
      completedAt: at(20),
      timeoutAt: null,
    });
    expect(viewOf(aRecord('succeeded'))).toMatchObject({ result: { success: true, output: { answer: 42 } } });
  });

  test('changes nothing of the record', () => {
    for (const { record } of Object.values(situations())) expect(() => viewOf(deepFreeze(record))).not.toThrow();
  });
});
