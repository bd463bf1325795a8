/** Encryption of what Temporal stores, on the real server: nothing readable in a history, everything readable by us. */
import { randomBytes } from 'node:crypto';
import { defaultPayloadConverter, type Payload, type PayloadCodec } from '@temporalio/common';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { payloadCodecsOf, type PayloadKey } from '../../src/temporal/payload-codec.ts';
import { CUSTOMER, startHarness, type Harness } from '../support/harness.ts';

const aKey = (id: string): PayloadKey => ({ id, key: randomBytes(32) });

describe('the codec', () => {
  const [old, current] = [aKey('old'), aKey('current')];
  const plain = defaultPayloadConverter.toPayload<object>({ planted: 'secret' });
  const codecOf = (keys: PayloadKey[]): PayloadCodec => {
    const [codec] = payloadCodecsOf(keys);
    if (codec === undefined) throw new Error('no codec');
    return codec;
  };
  const encode = async (keys: PayloadKey[]): Promise<Payload> => {
    const [hidden] = await codecOf(keys).encode([plain]);
    return hidden ?? {};
  };
  const decode = async (keys: PayloadKey[], payload: Payload): Promise<unknown> => {
    const [decoded] = await codecOf(keys).decode([payload]);
    return defaultPayloadConverter.fromPayload(decoded ?? {});
  };

  test('without keys there is none', () => {
    expect(payloadCodecsOf([])).toEqual([]);
  });

  test('hides a payload, and gives it back', async () => {
    const hidden = await encode([current]);
    expect(Buffer.from(hidden.data ?? []).toString('latin1')).not.toContain('secret');
    expect(await decode([current], hidden)).toEqual({ planted: 'secret' });
    expect(hidden.data).not.toEqual((await encode([current])).data);
  });

  test('a rotated key still reads what it wrote; without it, or changed, it is an error', async () => {
    const hidden = await encode([old]);
    expect(await decode([current, old], hidden)).toEqual({ planted: 'secret' });
    await expect(decode([current], hidden)).rejects.toThrow('encrypted with the key old, which is not configured');
    await expect(decode([{ ...old, key: current.key }], hidden)).rejects.toThrow('unable to authenticate');
    const changed = Buffer.from(hidden.data ?? []);
    changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1;
    await expect(decode([old], { ...hidden, data: changed })).rejects.toThrow('unable to authenticate');
  });

  test('what was never encrypted passes', async () => {
    expect(await decode([current], plain)).toEqual({ planted: 'secret' });
  });
});

describe('a Task with encryption on', () => {
  let holdfast: Harness;
  beforeAll(async () => {
    holdfast = await startHarness({ payloadCodecs: payloadCodecsOf([aKey('k1')]) });
  });
  afterAll(() => holdfast.close());

  test('goes its whole way, is read live and closed, and its history shows nothing of it', async () => {
    const { scheduler, inbox } = holdfast;
    const taskId = holdfast.freshId();
    const target = { customerId: CUSTOMER, taskId, keyIsFresh: true };
    await scheduler.schedule(CUSTOMER, { taskId, type: 'test', input: 'planted-input' }, 'k');
    const { id } = await inbox.next(taskId);
    await scheduler.sendMessage({ ...target, key: 'm' }, { body: 'planted-message' });
    await scheduler.claim({ ...target, key: 'planted-claim' }, { deliveryEventId: id });
    const ended = await scheduler.recordResult(
      { ...target, key: 'r' },
      { success: true, claimId: 'planted-claim', output: 'planted-output' },
    );
    expect(ended).toMatchObject({ status: 'succeeded', input: 'planted-input', result: { output: 'planted-output' } });
    expect(await scheduler.get(CUSTOMER, taskId)).toEqual(ended);
    const again = await scheduler.schedule(CUSTOMER, { taskId, type: 'test', input: 'planted-input' }, 'k');
    expect(again).toMatchObject({ replayed: true, task: { taskId } });

    const history = await holdfast.client.workflow.getHandle(holdfast.workflowId(taskId)).fetchHistory();
    const shown = historyToJSON(history);
    const texts = [
      shown,
      ...[...shown.matchAll(/"data": ?"([^"]*)"/g)].map(([, data]) =>
        Buffer.from(data ?? '', 'base64').toString('latin1'),
      ),
    ];
    for (const text of texts) expect(text).not.toMatch(/planted|evt_/);
    // Said in the docs: ids and search attributes are not covered.
    expect(shown).toContain(taskId);
  });
});
