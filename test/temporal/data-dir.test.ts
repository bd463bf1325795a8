import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { dataDirState, takeDataDir } from '../../src/temporal/data-dir.ts';
import { processIdentity, stopProcess } from '../../src/temporal/processes.ts';
import { endProcess, temporaryDir } from './support.ts';

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

test('of two that come at once, one gets it and the other is told', async () => {
  const dir = await temporaryDir();
  const outcomes = await Promise.allSettled([takeDataDir(dir), takeDataDir(dir)]);
  const winners = outcomes.filter((outcome) => outcome.status === 'fulfilled');
  const losers = outcomes.filter((outcome) => outcome.status === 'rejected');
  expect(winners).toHaveLength(1);
  expect(losers).toMatchObject([{ reason: { code: 'data-dir-in-use' } }]);
  for (const { value } of winners) await value.release();
  expect(await readdir(dir)).toEqual([]);
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
  ['of a dead process', `${2 ** 22 + 1} long ago`],
  ['of a process that lives, but started at another time', `${process.pid} long ago`],
  ['that a power failure left empty', ''],
])('a lock %s holds nothing', async (_, content) => {
  const dir = await temporaryDir();
  await writeFile(path.join(dir, 'holdfast-old.lock'), content);
  expect(await dataDirState(dir)).toBe('abandoned');
  const held = await takeDataDir(dir);
  await held.release();
  expect(await readdir(dir)).toEqual([]);
});

test('where the system does not tell when a process started, a live pid holds the folder', async () => {
  const dir = await temporaryDir();
  await writeFile(path.join(dir, 'holdfast-old.lock'), `${process.pid} untold`);
  await expect(takeDataDir(dir)).rejects.toMatchObject({ code: 'data-dir-in-use' });
  expect(await readdir(dir)).toEqual(['holdfast-old.lock']);
});

test('a folder that cannot be read or written is told, and no lock stays', async () => {
  const dir = await temporaryDir();
  await writeFile(path.join(dir, 'file'), '');
  await expect(takeDataDir(path.join(dir, 'file'))).rejects.toMatchObject({
    code: 'data-dir-unwritable',
    message: expect.stringMatching(/file .*Set HOLDFAST_DATA_DIR/),
  });
  expect(await readdir(dir)).toEqual(['file']);
});

test('a process that does not end on SIGTERM is killed; one that is gone is no fault', async () => {
  const program = `process.on('SIGTERM', () => {}); setInterval(() => {}, 1000); console.log('ready')`;
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => endProcess(child));
  await once(child.stdout, 'data');
  const pid = child.pid ?? 0;
  const identity = (await processIdentity(pid)) ?? '';
  const ended = once(child, 'exit');
  expect(await stopProcess({ pid, identity, graceMs: 100 })).toBe(true);
  expect(await ended).toEqual([null, 'SIGKILL']);
  expect(await stopProcess({ pid, identity, graceMs: 100 })).toBe(true);
});

test('a process is never stopped by the pid alone', async () => {
  expect(await stopProcess({ pid: process.pid, identity: 'another', graceMs: 1 })).toBe(true);
  expect(await processIdentity(process.pid)).toBeDefined();
});
