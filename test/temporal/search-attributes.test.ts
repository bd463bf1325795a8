import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common';
import { encodeSearchAttributeIndexedValueType } from '@temporalio/common/lib/search-attributes.js';
import { msToTs } from '@temporalio/common/lib/time.js';
import { expect, inject, onTestFinished, test } from 'vitest';
import { SEARCH_ATTRIBUTES } from '../../src/contracts/search-attributes.ts';
import { LOOPBACK_CHANNEL_ARGS } from '../../src/temporal/embedded.ts';
import { ensureSearchAttributes, searchAttributeCommands } from '../../src/temporal/search-attributes.ts';
import { silentLog } from '../support/silent-log.ts';
import { startTimeSkipping } from '../support/time-skipping.ts';
import { connect } from './support.ts';

const typedSearchAttributes = new TypedSearchAttributes([
  { key: defineSearchAttributeKey('TaskStatus', 'KEYWORD'), value: 'scheduled' },
  { key: defineSearchAttributeKey('TaskCreatedAt', 'DATETIME'), value: new Date(0) },
]);

/** Adds one attribute as somebody else would, or a Holdfast of another version. */
async function addByHand(server: { connection: Connection; namespace: string }, name: string, type: 'INT' | 'KEYWORD') {
  const { connection, namespace } = server;
  const encoded = encodeSearchAttributeIndexedValueType(type);
  if (encoded === undefined) throw new TypeError(`no encoding for ${type}`);
  await connection.operatorService.addSearchAttributes({ namespace, searchAttributes: { [name]: encoded } });
}

/**
 * A server that answers each call with the gRPC status that is given for its name (0: an empty answer), as Temporal
 * does it; 7 for all others.
 */
async function statusServer(statuses: Readonly<Record<string, number>>): Promise<Connection> {
  const server = createServer();
  server.on('stream', (stream, headers) => {
    const status = statuses[path.posix.basename(headers[':path'] ?? '')] ?? 7;
    const trailers = { 'grpc-status': String(status), 'grpc-message': 'not you' };
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => {
      stream.sendTrailers(trailers);
    });
    stream.end(status === 0 ? Buffer.alloc(5) : undefined); // no compression, no bytes
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const connection = Connection.lazy({
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    channelArgs: LOOPBACK_CHANNEL_ARGS,
  });
  onTestFinished(async () => {
    await connection.close();
    server.close();
  });
  return connection;
}

async function newNamespace(): Promise<{ connection: Connection; namespace: string }> {
  const connection = await connect(inject('temporalAddress'));
  const namespace = `search-attributes-${randomUUID()}`;
  await connection.workflowService.registerNamespace({
    namespace,
    workflowExecutionRetentionPeriod: msToTs('1 day'),
  });
  // A namespace is listed before the server's caches know it.
  await expect
    .poll(() => connection.operatorService.listSearchAttributes({ namespace }), { timeout: 30_000 })
    .toBeDefined();
  return { connection, namespace };
}

test('registered once, by several at the same time, and usable at once', async () => {
  const { connection, namespace } = await newNamespace();
  await Promise.all(Array.from({ length: 3 }, () => ensureSearchAttributes(connection, namespace, silentLog)));
  await ensureSearchAttributes(connection, namespace, silentLog);

  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  expect(Object.keys(customAttributes)).toEqual(expect.arrayContaining(Object.keys(SEARCH_ATTRIBUTES)));
  const { workflow } = new Client({ connection, namespace });
  const handle = await workflow.start('waits', { taskQueue: 'nobody', workflowId: 'one', typedSearchAttributes });
  const found = await handle.describe();
  expect(found.typedSearchAttributes.get(defineSearchAttributeKey('TaskStatus', 'KEYWORD'))).toBe('scheduled');
});

test('one of another type is named, and nothing is registered beside it', async () => {
  const { connection, namespace } = await newNamespace();
  await addByHand({ connection, namespace }, 'TaskStatus', 'INT');
  await expect
    .poll(async () => (await connection.operatorService.listSearchAttributes({ namespace })).customAttributes, {
      timeout: 30_000,
    })
    .toHaveProperty('TaskStatus');

  await expect(ensureSearchAttributes(connection, namespace, silentLog)).rejects.toMatchObject({
    code: 'search-attribute-type',
    message: expect.stringContaining('TaskStatus is Int, must be Keyword'),
  });
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  expect(customAttributes).not.toHaveProperty('TaskType');
});

test('without the permission, the commands for an administrator are in the error', async () => {
  const connection = await statusServer({});
  const ensured = ensureSearchAttributes(connection, 'acme', silentLog);
  await expect(ensured).rejects.toMatchObject({ code: 'search-attributes-denied' });
  for (const command of searchAttributeCommands('acme')) await expect(ensured).rejects.toThrow(command);
  expect(searchAttributeCommands('acme')).toContain(
    'temporal operator search-attribute create --namespace acme --name TaskReleaseAt --type Datetime',
  );
});

test('without the permission, but registered by an administrator: they are used', async () => {
  const connection = await statusServer({ CountWorkflowExecutions: 0 });
  await expect(ensureSearchAttributes(connection, 'acme', silentLog)).resolves.toBeUndefined();
});

test('that never become usable are given up within the bound', async () => {
  const calls = { ListSearchAttributes: 0, AddSearchAttributes: 0, CountWorkflowExecutions: 3 };
  const ensured = ensureSearchAttributes(await statusServer(calls), 'acme', silentLog, { usableTimeoutMs: 50 });
  await expect(ensured).rejects.toMatchObject({
    code: 'search-attributes-failed',
    message: expect.stringMatching(/Waiting 50 ms.*acme.*not you/),
  });
});

test('some of them there already: the others are added', async () => {
  const { connection, namespace } = await newNamespace();
  await addByHand({ connection, namespace }, 'TaskStatus', 'KEYWORD');
  await ensureSearchAttributes(connection, namespace, silentLog);
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  expect(Object.keys(customAttributes)).toEqual(expect.arrayContaining(Object.keys(SEARCH_ATTRIBUTES)));
});

test('TaskQueue is an attribute of the server itself: hence TaskQueueName', async () => {
  const server = await newNamespace();
  await expect(addByHand(server, 'TaskQueue', 'KEYWORD')).rejects.toMatchObject({
    details: 'Search attribute TaskQueue is reserved by system.',
  });
});

test('an unknown namespace is an error of its own', async () => {
  const connection = await connect(inject('temporalAddress'));
  await expect(ensureSearchAttributes(connection, 'nowhere', silentLog)).rejects.toMatchObject({
    code: 'search-attributes-failed',
    message: expect.stringContaining('nowhere'),
  });
});

test('the time-skipping test server takes them, a second time too', async () => {
  const env = await startTimeSkipping();
  onTestFinished(() => env.teardown());
  await ensureSearchAttributes(env.connection, 'default', silentLog);
  const handle = await env.client.workflow.start('waits', {
    taskQueue: 'nobody',
    workflowId: 'one',
    typedSearchAttributes,
  });
  expect((await handle.describe()).status.name).toBe('RUNNING');
});
