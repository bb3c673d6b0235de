// Times, amounts and states as people read them.

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60]];

export function ago(text) {
  if (!text) return "–";
  const seconds = (new Date(text) - Date.now()) / 1000;
  for (const [unit, size] of UNITS) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return seconds < 0 ? "just now" : "in a moment";
}

export const at = (text) => (text ? exact.format(new Date(text)) : "–");

export function duration(seconds) {
  if (seconds === 0) return "not at all";
  for (const [unit, size] of UNITS) {
    if (seconds >= size) return `${Math.round(seconds / size)} ${unit}${Math.round(seconds / size) === 1 ? "" : "s"}`;
  }
  return `${seconds} seconds`;
}

export function dollars(amount) {
  if (amount === undefined || amount === null) return "–";
  const number = Number(amount);
  return number > 0 && number < 0.01 ? "< $0.01" : `$${number.toFixed(2)}`;
}

const STEPS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(number) {
  let value = Number(number);
  let step = 0;
  while (value >= 1024 && step < STEPS.length - 1) {
    value /= 1024;
    step += 1;
  }
  return `${step ? value.toFixed(1) : value} ${STEPS[step]}`;
}

const BECAUSE = {
  idle: "idle",
  asked: "on request",
  budget: "its budget is spent",
  deadline: "its deadline is over",
  failed: "its pod failed",
};

export const stateOf = (workspace) =>
  workspace.state === "running" && workspace.suspended_because ? "suspended" : workspace.state;

export function why(workspace) {
  if (workspace.why) return workspace.why;
  if (stateOf(workspace) === "suspended") return BECAUSE[workspace.suspended_because] ?? "";
  if (workspace.state === "deleted" && workspace.destroy_after) return `files kept until ${at(workspace.destroy_after)}`;
  return "";
}
