/**
 * Optional encryption of what Temporal stores: inputs, messages, results and summaries, with AES-256-GCM, on the way out
 * of this process. Not covered, since Temporal must read them: workflow ids, search attributes, signal and query names.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { Payload, PayloadCodec } from '@temporalio/common';
import proto from '@temporalio/proto';

/** `id` says which key a payload was encrypted with; 32 bytes of key. */
export interface PayloadKey {
  id: string;
  key: Buffer;
}

const ENCODING = 'binary/encrypted';
const IV_BYTES = 12;
const TAG_BYTES = 16;
const { Payload: PayloadMessage } = proto.temporal.api.common.v1;

/** The codecs for these keys: none where there is no key, else one that encrypts with the first and reads all. */
export function payloadCodecsOf(keys: readonly PayloadKey[]): PayloadCodec[] {
  const [current] = keys;
  return current === undefined ? [] : [new EncryptionCodec(current, keys)];
}

class EncryptionCodec implements PayloadCodec {
  readonly #current: PayloadKey;
  readonly #keys: ReadonlyMap<string, Buffer>;

  constructor(current: PayloadKey, keys: readonly PayloadKey[]) {
    this.#current = current;
    this.#keys = new Map(keys.map(({ id, key }) => [id, key]));
  }

  async encode(payloads: Payload[]): Promise<Payload[]> {
    return payloads.map((payload) => this.#encrypt(payload));
  }

  async decode(payloads: Payload[]): Promise<Payload[]> {
    return payloads.map((payload) => this.#decrypt(payload));
  }

  #encrypt(payload: Payload): Payload {
    const { id, key } = this.#current;
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES }).setAAD(Buffer.from(id));
    const whole = PayloadMessage.encode(payload).finish(); // its metadata too
    const hidden = Buffer.concat([cipher.update(whole), cipher.final()]);
    return {
      metadata: { encoding: Buffer.from(ENCODING), 'encryption-key-id': Buffer.from(id) },
      data: Buffer.concat([iv, cipher.getAuthTag(), hidden]),
    };
  }

  /** What is not encrypted passes: Tasks from before, and signals by hand. A key that is missing is an error. */
  #decrypt(payload: Payload): Payload {
    const { metadata, data } = payload;
    if (textOf(metadata?.['encoding']) !== ENCODING || !data) return payload;
    const id = textOf(metadata?.['encryption-key-id']);
    const key = this.#keys.get(id);
    if (key === undefined) throw new Error(`a payload is encrypted with the key ${id}, which is not configured`);
    const bytes = Buffer.from(data);
    const iv = bytes.subarray(0, IV_BYTES);
    const tag = bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES);
    const decipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES }).setAAD(Buffer.from(id));
    decipher.setAuthTag(tag);
    const whole = Buffer.concat([decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), decipher.final()]);
    return PayloadMessage.decode(whole);
  }
}

function textOf(bytes: Uint8Array | null | undefined): string {
  return bytes ? Buffer.from(bytes).toString() : '';
}
