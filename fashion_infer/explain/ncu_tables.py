"""Converts an ncu report to JSON: each kernel's metrics, rules and instructions with their source lines.

It is a separate script, which a Python version that ncu's module `ncu_report` supports can run:
`python ncu_tables.py REPORT FOLDER_OF_NCU_REPORT`. A rule is stored by its identifier, not by its text.
"""

import json
import re
import sys
from typing import Any, Dict

_BY_LINE = re.compile(r"^(inst_executed|thread_inst_executed|memory_|smsp__pcsamp_|derived__memory_)")
_ACTION = re.compile(
    r"^(launch__|gpu__time_duration|dram__bytes|lts__t_bytes|l1tex__(t_|data_|lsu)|smsp__(thread_inst|inst_executed|sass|"
    r"issue_active|cycles_active|pcsamp_|average_warps|warps)|sm__(warps_active|throughput|maximum_warps|inst_executed|"
    r"pipe|cycles)|gpu__compute_memory|device__attribute_(multiprocessor_count|max_warps|l2_cache_size)|"
    r"memory_|derived__|inst_executed|thread_inst_executed)"
)


def tables(path: str) -> Dict[str, Any]:  # pragma: no cover (runs in ncu's Python)
    """Return the kernels of a report as a dictionary for JSON."""
    import ncu_report  # type: ignore[import-not-found]

    context = ncu_report.load_report(path)
    kernels = []
    for index in range(context.num_ranges()):
        part = context.range_by_idx(index)
        kernels += [_kernel(part.action_by_idx(number)) for number in range(part.num_actions())]
    return {"kernels": kernels}


def _kernel(action: Any) -> Dict[str, Any]:  # pragma: no cover (runs in ncu's Python)
    metrics: Dict[str, Any] = {}
    by_pc: Dict[int, Dict[str, Any]] = {}
    for name in action.metric_names():
        metric = action.metric_by_name(name)
        if metric is None:
            continue
        try:
            value = metric.value()
        except Exception:  # a metric without a value on this GPU
            continue
        if _ACTION.match(name) and isinstance(value, (int, float)):
            metrics[name] = value
        try:
            count = metric.num_instances()
            if not count or not _BY_LINE.match(name) or not metric.has_correlation_ids():
                continue
            places = metric.correlation_ids()
            for number in range(count):
                amount = metric.as_double(number)
                if amount:
                    by_pc.setdefault(int(places.as_uint64(number)), {})[name] = amount
        except Exception:
            continue
    return {"name": action.name(), "metrics": metrics, "rules": _rules(action), "instructions": _lines(action, by_pc)}


def _lines(action: Any, by_pc: Dict[int, Dict[str, Any]]) -> list:  # pragma: no cover (runs in ncu's Python)
    found = []
    for pc in sorted(by_pc):
        row: Dict[str, Any] = {"pc": pc, "file": None, "line": None, "sass": ""}
        try:
            row["sass"] = action.sass_by_pc(pc)
            source = action.source_info(pc)
            if source is not None:
                row["file"], row["line"] = source.file_name(), source.line()
        except Exception:
            pass
        if row["sass"]:
            found.append({**row, **by_pc[pc]})
    return found


def _rules(action: Any) -> list:  # pragma: no cover (runs in ncu's Python)
    try:
        results = action.rule_results_as_dicts()
    except Exception as error:
        return [{"rule_identifier": "", "error": str(error)}]
    return [json.loads(json.dumps(result, default=str)) for result in results]


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[2])
    json.dump(tables(sys.argv[1]), sys.stdout)
