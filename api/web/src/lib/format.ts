// How figures and times are written.

import { timestampDate, timestampFromMs, type Timestamp } from '@bufbuild/protobuf/wkt';
import type { Resources } from '../gen/apipb/api_pb';

export function percent(share: number | undefined): string {
  if (share === undefined) return '–';
  const value = share * 100;
  return (value >= 99.95 || value === 0 ? value.toFixed(0) : value.toFixed(1)) + '%';
}

export function bytes(value: bigint | number): string {
  let rest = Number(value);
  for (const unit of ['B', 'KiB', 'MiB', 'GiB', 'TiB']) {
    if (rest < 1024 || unit === 'TiB') return `${rest < 10 && unit !== 'B' ? rest.toFixed(1) : rest.toFixed(0)} ${unit}`;
    rest /= 1024;
  }
  return '';
}

export function count(value: bigint | number): string {
  return Number(value).toLocaleString('en');
}

export function cores(value: number): string {
  return value.toLocaleString('en', { minimumFractionDigits: Number.isInteger(value) ? 0 : 1, maximumFractionDigits: 1 });
}

export function millis(time: Timestamp | undefined): number {
  return time ? timestampDate(time).getTime() : 0;
}

// stamp is a time in milliseconds as messages have it: in whole nanoseconds, which a fraction of a millisecond
// may not come to.
export const stamp = (milliseconds: number) => timestampFromMs(Math.round(milliseconds));

export function duration(milliseconds: number): string {
  const s = Math.max(0, Math.round(milliseconds / 1000));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${s % 60}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${Math.floor((s % 3600) / 60)}m`;
  return `${Math.floor(s / 86400)}d ${Math.floor((s % 86400) / 3600)}h`;
}

// period reads how long something is, such as 90s, 30m, 1h or 7d, in milliseconds: NaN if it is no
// such text, undefined if it is empty.
export function period(text: string): number | undefined {
  if (!text) return undefined;
  const [, n, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  return n && unit ? Number(n) * { s: 1e3, m: 60e3, h: 3600e3, d: 86400e3 }[unit as 's' | 'm' | 'h' | 'd'] : NaN;
}

export function moment(time: Timestamp | undefined): string {
  return time ? timestampDate(time).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' }) : '–';
}

export function timeOfDay(milliseconds: number): string {
  return new Date(milliseconds).toLocaleTimeString('en-GB');
}

// when is a time of day, with its date if that is another than now.
export function when(milliseconds: number, now: number): string {
  return Math.abs(milliseconds - now) < 20 * 3600_000 ? timeOfDay(milliseconds) : new Date(milliseconds).toLocaleString('en-GB', { dateStyle: 'short', timeStyle: 'short' });
}

export function capital(text: string): string {
  return text && text[0]!.toUpperCase() + text.slice(1);
}

// sentence makes a text of an explanation one: with a capital and a full stop, and local times.
export function sentence(text: string, now: number): string {
  const said = localTimes(text, now);
  return said && capital(said) + (/[.!?]$/.test(said) ? '' : '.');
}

// localTimes rewrites the times in a text of an explanation, which are RFC 3339 in UTC.
export function localTimes(text: string, now: number): string {
  return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (t) => when(Date.parse(t), now));
}

export interface Amount {
  name: string;
  text: string;
  value: number;
}

// amounts lists resources in the words that people use, in a fixed order.
export function amounts(r: Resources | undefined): Amount[] {
  if (!r) return [];
  return [
    { name: 'CPU', text: cores(r.cpu), value: r.cpu },
    { name: 'memory', text: bytes(r.memory), value: Number(r.memory) },
    { name: 'GPU', text: count(r.gpu), value: Number(r.gpu) },
    { name: 'slots', text: count(r.userSlots), value: Number(r.userSlots) },
    { name: 'network', text: count(r.network), value: Number(r.network) },
  ];
}
