import { readdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { dataDirState, takeDataDir } from '../../src/temporal/data-dir.ts';
import { processIdentity, stopProcess } from '../../src/temporal/processes.ts';
import { temporaryDir } from './support.ts';

test('a folder is held once; released, it can be taken again', async () => {
  const dir = await temporaryDir();
  const held = await takeDataDir(dir);
  expect(await dataDirState(dir)).toBe('held');
  await expect(takeDataDir(dir)).rejects.toMatchObject({ code: 'data-dir-in-use' });
  expect(await dataDirState(dir)).toBe('held');
  await held.release();
  await held.release();
  expect(await dataDirState(dir)).toBe('free');
  const again = await takeDataDir(dir);
  await again.release();
});

test('a link to the folder leads to the same lock', async () => {
  const dir = await temporaryDir();
  const link = path.join(await temporaryDir(), 'link');
  await symlink(dir, link);
  const held = await takeDataDir(dir);
  onTestFinished(() => held.release());
  await expect(takeDataDir(link)).rejects.toMatchObject({ code: 'data-dir-in-use' });
});

test('of many that come at once, one at most gets it', async () => {
  const dir = await temporaryDir();
  const outcomes = await Promise.allSettled(Array.from({ length: 8 }, () => takeDataDir(dir)));
  const winners = outcomes.filter((outcome) => outcome.status === 'fulfilled');
  expect(winners.length).toBeLessThanOrEqual(1);
  for (const { value } of winners) await value.release();
  expect(await readdir(dir)).toEqual([]);
});

test.each([
  ['a dead process', { pid: 2 ** 22 + 1, identity: 'long ago' }],
  ['a process that lives, but started at another time', { pid: process.pid, identity: 'long ago' }],
])('a lock of %s holds nothing', async (_, owner) => {
  const dir = await temporaryDir();
  await writeFile(path.join(dir, 'holdfast-old.lock'), JSON.stringify(owner));
  expect(await dataDirState(dir)).toBe('abandoned');
  await writeFile(path.join(dir, 'holdfast-old.lock'), JSON.stringify(owner));
  const held = await takeDataDir(dir);
  await held.release();
  expect(await readdir(dir)).toEqual([]);
});

test('a process is never stopped by the pid alone', async () => {
  expect(await stopProcess({ pid: process.pid, identity: 'another', graceMs: 1 })).toBe(true);
  expect(await processIdentity(process.pid)).toBeDefined();
});
