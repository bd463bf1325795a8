/**
 * API keys, `hf_{environment}_{id}_{secret}`: the id finds the entry, the secret proves it. Only the secret's hash is
 * stored; the secret has 256 random bits, so a plain SHA-256 needs no salt and no slowness.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

const FORM = /^hf_([a-z0-9]{1,16})_([a-z0-9]{16})_([a-f0-9]{64})$/;

export interface ApiKey {
  id: string;
  /** The whole text that its owner keeps. Shown once. */
  text: string;
  secretHash: string;
}

/** A new key. `environment` (`live`, `test`) only tells people and secret scanners what they have found. */
export function newApiKey(environment: string): ApiKey {
  const id = randomBytes(8).toString('hex');
  const secret = randomBytes(32).toString('hex');
  return { id, text: `hf_${environment}_${id}_${secret}`, secretHash: hashOf(secret) };
}

/** The id and the secret of a key's text; null when it has not the form of one. */
export function parseApiKey(text: string): { id: string; secret: string } | null {
  const [, , id, secret] = FORM.exec(text) ?? [];
  return id === undefined || secret === undefined ? null : { id, secret };
}

/** Compares hashes in constant time: both have the same length whatever was presented. */
export function isSecretOf(secret: string, secretHash: string): boolean {
  return timingSafeEqual(Buffer.from(hashOf(secret), 'hex'), Buffer.from(secretHash, 'hex'));
}

function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}
