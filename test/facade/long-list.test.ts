/** A list that is much longer than a page, read while it grows: nothing that was there is skipped or comes twice. */
import request from 'supertest';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Listening } from '../../src/facade/listen.ts';
import { LIMITS } from '../../src/contracts/limits.ts';
import type { TaskSummary } from '../../src/scheduler/listing.ts';
import { CUSTOMER, startHarness, type Harness } from '../support/harness.ts';
import { eventually, NEXT_YEAR } from '../workflow/support.ts';
import { serve } from './support.ts';

const TASKS = 1_000;
const OTHERS = 100;
const OTHERS_A_PAGE = 5;
const PAGE_SIZE = 50;
const AT_ONCE = 50;
const BOUND_MS = 240_000;

let holdfast: Harness;
let server: Listening;
beforeAll(async () => {
  holdfast = await startHarness();
  server = await serve(holdfast.app);
});
afterAll(async () => {
  await server.close();
  await holdfast.close();
});

interface Page {
  tasks: TaskSummary[];
  nextPageToken: string | null;
}

async function pageOf(query: Record<string, string | number>, pageToken: string | null): Promise<Page> {
  const answer = await request(server.url)
    .get('/v1/tasks')
    .query({ ...query, ...(pageToken === null ? {} : { pageToken }) });
  expect(answer.status).toBe(200);
  return answer.body as Page;
}

/** All ids of a list, in order, with what is to be done while each page is read. */
async function idsOf(
  query: Record<string, string | number>,
  meanwhile: () => Promise<unknown> = () => Promise.resolve(),
): Promise<{ ids: string[]; pages: number }> {
  const ids: string[] = [];
  let pageToken: string | null = null;
  let pages = 0;
  do {
    const [page]: [Page, unknown] = await Promise.all([pageOf(query, pageToken), meanwhile()]);
    expect(page.tasks.length).toBeLessThanOrEqual(Number(query['pageSize']));
    ids.push(...page.tasks.map(({ taskId }) => taskId));
    ({ nextPageToken: pageToken } = page);
    pages += 1;
  } while (pageToken !== null);
  return { ids, pages };
}

/** Schedules so many Tasks of the type for next year, at most `AT_ONCE` at the same time; their ids. */
async function schedule(type: string, count: number): Promise<string[]> {
  const left = Array.from({ length: count }, () => holdfast.freshId());
  const made: string[] = [];
  const maker = async (): Promise<void> => {
    for (let taskId = left.pop(); taskId !== undefined; taskId = left.pop()) {
      await holdfast.scheduler.schedule(CUSTOMER, { taskId, type, releaseAt: NEXT_YEAR }, taskId);
      made.push(taskId);
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, count) }, maker));
  return made;
}

test(
  `${TASKS} Tasks by pages of ${PAGE_SIZE} while ${OTHERS} others are made: each is listed, and once`,
  async () => {
    const type = holdfast.freshId('long');
    const made = new Set(await schedule(type, TASKS));
    expect(made.size).toBe(TASKS);
    // Visibility follows with a delay.
    const whole = { type, pageSize: LIMITS.pageSizeMax };
    await eventually(
      () => idsOf(whole),
      ({ ids }) => ids.length === TASKS,
    );

    const others = new Set<string>();
    const { ids, pages } = await idsOf({ type, pageSize: PAGE_SIZE }, async () => {
      const count = Math.min(OTHERS_A_PAGE, OTHERS - others.size);
      for (const taskId of await schedule(type, count)) others.add(taskId);
    });
    expect(pages).toBeGreaterThanOrEqual(TASKS / PAGE_SIZE);
    expect(others.size).toBe(OTHERS);
    expect(ids.filter((taskId) => made.has(taskId)).toSorted()).toEqual([...made].toSorted());
    expect(ids.filter((taskId) => !made.has(taskId) && !others.has(taskId))).toEqual([]);

    // The others were no less real: they are in the list once it has settled.
    const settled = await eventually(
      () => idsOf(whole),
      (found) => found.ids.length === TASKS + OTHERS,
    );
    expect(settled.ids.toSorted()).toEqual([...made, ...others].toSorted());
  },
  BOUND_MS,
);
