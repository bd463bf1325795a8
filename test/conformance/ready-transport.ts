/**
 * What every ready transport keeps, whatever carries it; a new adapter brings a harness and runs this suite.
 * T1: a publish resolves only when the peer has taken the event; the peer then has it, at least once.
 * T2: every attempt carries the same event, id included.
 * T3: a peer that refuses is an error that may be repeated, and the next attempt is a fresh one.
 * T4: a peer that never answers holds a publish until its signal aborts, or its own bound, and no longer.
 * T5: after the peer was gone and came back, publishing works again by itself.
 * T6: after `close`, no publish is left under way.
 */
import { describe, expect, onTestFinished, test } from 'vitest';
import type { TaskReadyCloudEvent } from '../../src/contracts/task-ready.ts';
import type { PublishError, ReadyTransport } from '../../src/transports/port.ts';
import { cloudEventOf } from '../../src/transports/cloud-event.ts';

/** A real peer of the transport, as a test steers it. */
export interface PeerHarness {
  /** The transport, on this peer; `timeoutMs` is its own bound of one publish. */
  transport(options?: { timeoutMs?: number }): ReadyTransport;
  /** Events that the peer was sent, in order, those that it refused among them. */
  readonly received: readonly TaskReadyCloudEvent[];
  /** What the peer does from now on: takes events, refuses them, or does not answer. */
  behave(how: 'take' | 'refuse' | 'hang'): void;
  /** Resolves when the peer has been sent that many events in all. */
  untilReceived(count: number): Promise<void>;
  /** The peer goes, with its connections. */
  stop(): Promise<void>;
  /** It comes back where it was. */
  restart(): Promise<void>;
}

export const never = (): AbortSignal => new AbortController().signal;

/** An event like those of the workflow. */
export function anEvent(id = 'evt_0b5ad6b8-9a3e-4e8d-a2d7-3f7f0f5f0001'): TaskReadyCloudEvent {
  return cloudEventOf(
    {
      taskId: 'task-1',
      customerId: 'acme',
      type: 'demo',
      queue: 'default',
      priority: 3,
      deliveryEventId: id,
      lineage: { rootTaskId: 'task-1', parentTaskId: null, ancestors: [] },
      source: { kind: 'chat', ref: 'Grüße – ☃' },
      releaseAt: '2026-01-31T09:00:00.000Z',
    },
    { publicUrl: 'http://127.0.0.1:8080', time: '2026-01-31T09:00:01.000Z' },
  );
}

/** The error of a publish that must fail. */
export async function failureOf(transport: ReadyTransport, signal: AbortSignal = never()): Promise<PublishError> {
  return transport.publish(anEvent(), { signal }).then(
    () => {
      throw new Error('the publish succeeded');
    },
    (error: unknown) => error as PublishError,
  );
}

/** Runs the suite; `start` makes a peer of its own for each test. */
export function describeReadyTransport(name: string, start: () => Promise<PeerHarness>): void {
  const setup = async (options?: { timeoutMs?: number }): Promise<{ peer: PeerHarness; transport: ReadyTransport }> => {
    const peer = await start();
    onTestFinished(() => peer.stop());
    const transport = peer.transport(options);
    onTestFinished(() => transport.close());
    return { peer, transport };
  };

  describe(`${name} as a ready transport`, () => {
    test('T1 a publish that resolved has reached the peer, unchanged', async () => {
      const { peer, transport } = await setup();
      await transport.publish(anEvent(), { signal: never() });
      expect(peer.received).toEqual([anEvent()]);
    });

    test('T1 many at once all arrive', async () => {
      const { peer, transport } = await setup();
      const events = Array.from({ length: 100 }, (_, index) => anEvent(`evt_${index}`));
      await Promise.all(events.map((event) => transport.publish(event, { signal: never() })));
      expect(new Set(peer.received.map((event) => event.id))).toEqual(new Set(events.map((event) => event.id)));
    });

    test('T2, T3 a refused event may be repeated, with the same id', async () => {
      const { peer, transport } = await setup();
      peer.behave('refuse');
      await expect(transport.publish(anEvent(), { signal: never() })).rejects.toMatchObject({
        name: 'PublishError',
        retryable: true,
      });
      peer.behave('take');
      await transport.publish(anEvent(), { signal: never() });
      expect(peer.received).toEqual([anEvent(), anEvent()]);
    });

    test('T4 a peer that does not answer is left when the signal aborts', async () => {
      const { peer, transport } = await setup();
      peer.behave('hang');
      const controller = new AbortController();
      const failure = failureOf(transport, controller.signal);
      await peer.untilReceived(1);
      controller.abort();
      expect(await failure).toMatchObject({ code: 'aborted', retryable: true });
    });

    test('T4 a peer that does not answer is left at the bound of its own', async () => {
      const { peer, transport } = await setup({ timeoutMs: 200 });
      peer.behave('hang');
      await expect(transport.publish(anEvent(), { signal: never() })).rejects.toMatchObject({
        code: 'timed-out',
        retryable: true,
      });
    });

    test('T4 a signal that was aborted before sends nothing', async () => {
      const { peer, transport } = await setup();
      await expect(transport.publish(anEvent(), { signal: AbortSignal.abort() })).rejects.toMatchObject({
        code: 'aborted',
      });
      expect(peer.received).toEqual([]);
    });

    test('T5 a peer that was gone and came back is reached again', async () => {
      const { peer, transport } = await setup();
      await transport.publish(anEvent('evt_1'), { signal: never() });
      await peer.stop();
      await expect(transport.publish(anEvent('evt_2'), { signal: never() })).rejects.toMatchObject({
        name: 'PublishError',
        retryable: true,
      });
      await peer.restart();
      await transport.publish(anEvent('evt_2'), { signal: never() });
      expect(peer.received.map((event) => event.id)).toEqual(['evt_1', 'evt_2']);
    });

    test('T6 close ends what is under way, and may be called again', async () => {
      const { peer, transport } = await setup();
      peer.behave('hang');
      const failure = failureOf(transport);
      await peer.untilReceived(1);
      await transport.close();
      expect(await failure).toMatchObject({ name: 'PublishError', retryable: true });
      await transport.close();
    });
  });
}
