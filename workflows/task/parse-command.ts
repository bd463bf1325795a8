/**
 * Reads the payload of a command signal. A facade sends well-formed ones, but anybody with the Web UI can sign by hand
 * (`null`, `"x"`, 2 MB of text): what is not of the form, or over a cap, is refused here and never an exception, since
 * an exception in a signal handler would fail the workflow task for ever. Hand-written, since zod would add a megabyte
 * to the bundle. Never tightened: histories that were accepted once must replay.
 */
import type { Command, CommandKind } from '../../src/contracts/commands.ts';
import { isWithinDepth, jsonBytes, type Json } from '../../src/contracts/json.ts';
import { IDEMPOTENCY_KEY_PATTERN, LIMITS } from '../../src/contracts/limits.ts';
import type { ReportedEffect } from '../../src/contracts/reported-effect.ts';

type Fields = Record<string, unknown>;

/** Ids that the facade makes. Their form keeps a verdict's JSON under its cap. */
const FINGERPRINT = /^[A-Za-z0-9_-]{1,43}$/;
const MESSAGE_ID = /^[A-Za-z0-9_-]{1,48}$/;
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** The command in a signal's payload; null when it is none. */
export function parseCommand(kind: CommandKind, payload: unknown): Command | null {
  if (!isFields(payload) || !isWithinDepth(payload, LIMITS.jsonDepthMax + 2)) return null;
  const { key, fingerprint } = payload;
  if (!isOfForm(key, IDEMPOTENCY_KEY_PATTERN)) return null;
  if (!isOfForm(fingerprint, FINGERPRINT)) return null;
  const base = { key, fingerprint };
  switch (kind) {
    case 'claim': {
      const { deliveryEventId, executorId, expiresAt } = payload;
      if (!isText(deliveryEventId, 128) || !isTextOrNull(executorId, LIMITS.executorIdLengthMax)) return null;
      if (!isOfForm(expiresAt, INSTANT)) return null;
      return { kind, ...base, deliveryEventId, executorId, expiresAt };
    }
    case 'message': {
      const { messageId, body } = payload;
      if (!isOfForm(messageId, MESSAGE_ID) || body === undefined || jsonBytes(body) > LIMITS.messageBytesMax)
        return null;
      return { kind, ...base, messageId, body: body as Json };
    }
    case 'mark-read': {
      const { upTo } = payload;
      return isCount(upTo) ? { kind, ...base, upTo } : null;
    }
    case 'cancel': {
      const { reason } = payload;
      return isTextOrNull(reason, LIMITS.reasonBytesMax) && jsonBytes(reason) <= LIMITS.reasonBytesMax
        ? { kind, ...base, reason }
        : null;
    }
    case 'result':
      return parseResult(base, payload);
    case 'redeliver':
      return { kind, ...base };
    default:
      return kind satisfies never;
  }
}

function parseResult(base: { key: string; fingerprint: string }, payload: Fields): Command | null {
  const { success, summary, output = null, effects, error = null, claimId, ifMailboxSeq } = payload;
  if (typeof success !== 'boolean' || !isTextOrNull(summary, LIMITS.resultBytesMax)) return null;
  if (!isEffects(effects) || !isTextOrNull(claimId, LIMITS.idempotencyKeyLengthMax)) return null;
  if (ifMailboxSeq !== null && !isCount(ifMailboxSeq)) return null;
  const body = { success, summary, output: output as Json, effects, error: error as Json };
  if (jsonBytes(body) > LIMITS.resultBytesMax) return null;
  return { kind: 'result', ...base, ...body, claimId, ifMailboxSeq };
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isText(value: unknown, lengthMax: number): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= lengthMax;
}

function isOfForm(value: unknown, form: RegExp): value is string {
  return typeof value === 'string' && form.test(value);
}

function isTextOrNull(value: unknown, lengthMax: number): value is string | null {
  return value === null || (typeof value === 'string' && value.length <= lengthMax);
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isEffects(value: unknown): value is ReportedEffect[] {
  return (
    Array.isArray(value) &&
    value.length <= LIMITS.effectsMax &&
    value.every(
      (effect) =>
        isFields(effect) &&
        typeof effect['kind'] === 'string' &&
        typeof effect['ref'] === 'string' &&
        (effect['note'] === undefined || typeof effect['note'] === 'string'),
    )
  );
}
