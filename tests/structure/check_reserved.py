#!/usr/bin/env python3
"""Is every reserved member and every yes-or-no member of the caller's structs tried?
check_reserved.py INCLUDE-DIRECTORY TEST

TEST is test_reserved.c, which sets them to what is not accepted.
"""
import pathlib
import re
import sys

# What the library hands out or fills, so that it reads none of it.
FILLED = set("""xsm_error xsm_choice_info xsm_choice_trial xsm_context_info xsm_corpus_info xsm_dataset_info xsm_fit_result
    xsm_model_info xsm_predictor_info xsm_sampler_info xsm_progress xsm_embedding_parameters
    xsm_embedding_view xsm_problem xsm_index_source xsm_index_block xsm_scaled_gradient xsm_train_report""".split())
# A table's own, whose other values are refused with the table (tests/estimator/).
TABLES = {("xsm_state_tensor", "by_row"), ("xsm_search_plan", "reserved")}


def main():
    tried = set(re.findall(r"REFUSES\((xsm_\w+), \w+, (\w+)", pathlib.Path(sys.argv[2]).read_text()))
    there = set()
    for header in pathlib.Path(sys.argv[1]).rglob("*.h"):
        for struct, body in re.findall(r"struct (xsm_\w+) \{(.*?)\n\}", header.read_text(), flags=re.S):
            for member, comment in re.findall(r"\bu?int32_t (\w+);\s*(?:/\*\*<\s*(.*?)\*/)?", body, flags=re.S):
                if member.startswith("reserved") or re.match(r"1 = |1:|0: [^;]*\. 1: ", comment):
                    there.add((struct, member))
    there = {(struct, member) for struct, member in there if struct not in FILLED} - TABLES
    bad = [f"{'.'.join(one)} is not tried" for one in sorted(there - tried)]
    print("\n".join(bad + [f"{len(there)} members, {len(bad)} not tried"]))
    return 1 if bad or len(there) < 35 else 0


if __name__ == "__main__":
    sys.exit(main())
