/**
 * Histories that were recorded once must replay with today's workflow code: a Task waits a year, and the code that wakes
 * it is not the code that put it to sleep. docs/replay.md says what to do when one does not.
 */
import { fileURLToPath } from 'node:url';
import type { PayloadCodec } from '@temporalio/common';
import type { temporal } from '@temporalio/proto';
import { bundleWorkflowCode, DefaultLogger, Worker, type ReplayWorkerOptions } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { pino } from 'pino';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { isTerminalStatus, TASK_STATUSES } from '../../src/contracts/task.ts';
import { installRuntime } from '../../src/temporal/worker.ts';
import { decisionsOf, FIXTURES, historyOf, listFixtures, readFixture, textOf, type History } from './fixtures.ts';
import { readableTextOf, scrub } from './scrub.ts';

type Payload = temporal.api.common.v1.IPayload;
type WorkflowBundle = NonNullable<ReplayWorkerOptions['workflowBundle']>;

interface Fixture {
  name: string;
  json: unknown;
  history: History;
}

interface Replayed {
  name: string;
  error: Error | undefined;
  /** What the replayed code handed to its activities and to its end, in order. */
  payloads: string[];
}

let fixtures: Fixture[];
beforeAll(async () => {
  // A replay that fails is also logged as an error; here failing is what some replays are for.
  installRuntime(pino({ level: 'silent' }));
  const names = await listFixtures();
  fixtures = await Promise.all(
    names.map(async (name) => {
      const json = await readFixture(name);
      return { name, json, history: historyOf(json) };
    }),
  );
});

/** Replays all in one worker, one after another, and listens to what the workflow code decides. */
async function replayAll(workflowBundle: WorkflowBundle, given: Fixture[] = fixtures): Promise<Replayed[]> {
  let heard: string[] = [];
  // Temporal compares the kinds of steps; their contents pass through here, on the way out of the workflow alone.
  const listener: PayloadCodec = {
    encode: (payloads: Payload[]) => {
      // Inputs and ends are objects; summaries are texts.
      heard.push(...payloads.map(textOf).filter((text) => text.startsWith('{')));
      return Promise.resolve(payloads);
    },
    decode: (payloads: Payload[]) => Promise.resolve(payloads),
  };
  const replayed: Replayed[] = [];
  const results = Worker.runReplayHistories(
    { workflowBundle, dataConverter: { payloadCodecs: [listener] } },
    given.map(({ name, history }) => ({ workflowId: name, history })),
  );
  for await (const { workflowId, error } of results) {
    replayed.push({ name: workflowId, error, payloads: heard });
    heard = [];
  }
  return replayed;
}

describe('the recorded histories', () => {
  test('are all there, and end as their names say', () => {
    expect(byName(fixtures, ({ history }) => decisionsOf(history).end)).toMatchObject(FIXTURES);
  });

  test('end in each final status', () => {
    const ends = new Set(fixtures.map(({ history }) => decisionsOf(history).end));
    expect(TASK_STATUSES.filter((status) => isTerminalStatus(status) && !ends.has(status))).toEqual([]);
  });

  test('name no machine', () => {
    expect(byName(fixtures, ({ json }) => json)).toEqual(byName(fixtures, ({ json }) => scrub(json)));
    const telling = fixtures.filter(({ json }) => /file:\/\/|node_modules|\d+@[\w.-]+/.test(readableTextOf(json)));
    expect(telling.map(({ name }) => name)).toEqual([]);
  });
});

describe('the workflow code of today', () => {
  let replayed: Replayed[];
  beforeAll(async () => {
    replayed = await replayAll({ codePath: inject('workflowBundlePath') });
  });

  test('replays every history', () => {
    expect(byName(replayed, ({ error }) => error)).toEqual(byName(fixtures, () => undefined));
    expect(replayed).toHaveLength(fixtures.length);
  });

  test('comes to what was recorded: the same publishes, the same final record', () => {
    const recorded = byName(fixtures, ({ history }) => decisionsOf(history).payloads.map(parsed));
    expect(byName(replayed, ({ payloads }) => payloads.map(parsed))).toEqual(recorded);
  });
});

describe('workflow code that was changed', () => {
  let workflowBundle: WorkflowBundle;
  beforeAll(async () => {
    workflowBundle = await bundleWorkflowCode({
      workflowsPath: fileURLToPath(new URL('changed/index.ts', import.meta.url)),
      logger: new DefaultLogger('ERROR'),
    });
  });

  test('with one step more replays no history', async () => {
    const replayed = await replayAll(workflowBundle);
    const violates = byName(replayed, ({ error }) => error instanceof DeterminismViolationError);
    expect(violates).toEqual(byName(fixtures, () => true));
  });

  test('with another result passes Temporal, and is noticed all the same', async () => {
    const { name, json } = fixtures.find((fixture) => fixture.name === 'succeeded') as Fixture;
    const history = ofType(historyOf(json), 'taskWithOtherResult');
    const [replayed] = await replayAll(workflowBundle, [{ name, json, history }]);
    expect(replayed?.error).toBeUndefined();
    const recorded = decisionsOf(history).payloads.map(parsed);
    expect(replayed?.payloads.map(parsed)).not.toEqual(recorded);
    expect(replayed?.payloads.map(parsed).slice(0, -1)).toEqual(recorded.slice(0, -1));
  });
});

/** The same history, of another workflow type. */
function ofType(history: History, name: string): History {
  const started = history.events?.[0]?.workflowExecutionStartedEventAttributes;
  if (!started) throw new Error('the history does not begin with its start');
  started.workflowType = { name };
  return history;
}

/** A table by the fixture's name, so that a failure says which one it is. */
function byName<Item extends { name: string }, Value>(items: Item[], of: (item: Item) => Value): Record<string, Value> {
  return Object.fromEntries(items.map((item) => [item.name, of(item)]));
}

function parsed(text: string): unknown {
  return JSON.parse(text);
}
