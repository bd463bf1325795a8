/** The HTTP facade over the scheduler: any number of these may run side by side, they keep no truth. */
import { randomUUID } from 'node:crypto';
import express, { type Express } from 'express';
import helmet from 'helmet';
import type { Logger } from 'pino';
import { pinoHttp } from 'pino-http';
import { HoldfastError } from '../contracts/errors.ts';
import type { KeyRing } from '../credentials/key-ring.ts';
import type { Scheduler } from '../scheduler/scheduler.ts';
import { authenticate } from './auth.ts';
import { keyInForce } from './idempotency.ts';
import { readBody } from './json-body.ts';
import { problemHandler, routeNotFound } from './problem.ts';
import { healthRouter } from './routes/health.ts';
import { commandsRouter } from './routes/commands.ts';
import { docsRouter, openApiRouter } from './routes/docs.ts';
import { messagesRouter } from './routes/messages.ts';
import { tasksRouter } from './routes/tasks.ts';

/** A caller's id is taken when it is harmless in a log and a header; any other gets a fresh one. */
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

/** Paths of answers with an ETag: a Task. */
const TAGGED = /^\/v1\/tasks\/[^/]+$/;

export interface AppDeps {
  scheduler: Scheduler;
  log: Logger;
  /** Null: no keys, one local caller. */
  keyRing: KeyRing | null;
}

export function createApp({ scheduler, log, keyRing }: AppDeps): Express {
  const app = express();
  app.set('etag', false);
  app.set('case sensitive routing', true);
  app.set('query parser', 'simple');
  app.use(
    pinoHttp({
      logger: log,
      genReqId: (request, response) => {
        const given = request.headers['x-request-id'];
        const id = typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID();
        response.setHeader('X-Request-Id', id);
        return id;
      },
      // Paths name Tasks; headers and bodies, which hold keys and input, stay out of the log.
      serializers: {
        req: ({ id, method, url }: { id: unknown; method: string; url: string }) => ({
          id,
          method,
          path: url.split('?', 1)[0],
        }),
        res: ({ statusCode }: { statusCode: number }) => ({ statusCode }),
      },
      customLogLevel: (_request, response, error) =>
        error !== undefined || response.statusCode >= 500 ? 'warn' : 'debug',
    }),
  );
  app.use(helmet());
  app.use(docsRouter());
  app.use((request, response, next) => {
    response.setHeader('Cache-Control', 'no-store');
    if (request.accepts(['json', 'application/problem+json']) === false) throw new HoldfastError('not-acceptable');
    next();
  });
  app.use((request, _response, next) => {
    // One route has tags. On any other Express would take `If-None-Match: *` for a reason to send no body.
    if (!TAGGED.test(request.path)) delete request.headers['if-none-match'];
    next();
  });
  app.use(healthRouter(scheduler), openApiRouter());
  app.use('/v1', keyInForce, authenticate(keyRing), ...readBody);
  app.use(tasksRouter(scheduler), commandsRouter(scheduler), messagesRouter(scheduler));
  app.use(routeNotFound);
  app.use(problemHandler(log));
  return app;
}
