#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts what the reference does not say: ./run docs, or after doxygen

    tools/documentation.py build/docs/xml [--list]

A public symbol counts as documented where a comment stands before it, or before the declarations that it follows
without an empty line. Functions that take matrices or batches are asked for shapes, and for errors; their own
comment, that of their class and that of their header are read, and the header's stands for its classes. It is a search for words: what it lists is worth a
look, no more. Exit status 1 where a public function, class or enumeration has no comment at all.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

SHAPES = re.compile(r"\b\w+ x \w+\b|\bbatch\b|\bcolumns?\b|\brows?\b|\bfeatures\b|\bsamples?\b|\bsize\b|\bas \w+|shape")
ERRORS = re.compile(r"throw|invalid_argument|domain_error|runtime_error|Throws|Exceptions|[Nn]ever fails")
ARRAYS = re.compile(r"Matrix|VectorRef|VectorX|Ref<|Eigen::|span<")
# Members that every reader of C++ knows, and names that the concept Layer prescribes and explains.
KNOWN = re.compile(r"^(operator.*|~.*|begin|end|size|empty|options|forward|backward|to_dense|describe|type_name|"
                   r"from_description|count_parameters|linear_parameters|parameters|num_parameters|gradients|"
                   r"zero_gradients|in_features|out_features|has_bias|bias|count|fields)$")


def text_of(node):
    return " ".join("".join(node.find(tag).itertext()) for tag in ("briefdescription", "detaileddescription")
                    if node.find(tag) is not None).strip()


def comment_above(member, lines):
    """The comment of the declarations that this one follows without an empty line, or nothing."""
    number = int(member.find("location").get("line")) - 2
    while number >= 0 and lines[number].strip():
        if lines[number].lstrip().startswith("//"):
            return " ".join(line.strip() for line in lines[max(0, number - 12):number + 1] if "//" in line)
        if re.match(r"\s*(public|private|protected|class|struct|namespace)\b", lines[number]):
            break
        number -= 1
    return ""


def main():
    folder, listed = pathlib.Path(sys.argv[1]), "--list" in sys.argv
    compounds = [c for f in sorted(folder.glob("*.xml")) for c in ElementTree.parse(f).getroot().findall("compounddef")]
    file_texts = {c.find("location").get("file"): text_of(c) for c in compounds
                  if c.get("kind") == "file" and c.find("location") is not None}
    missing = {"comment": [], "shapes": [], "errors": []}
    asked = dict.fromkeys(missing, 0)
    sources = {}
    for compound in compounds:
        kind, name = compound.get("kind"), compound.findtext("compoundname")
        if kind not in ("class", "struct", "namespace") or "detail" in name or compound.get("prot") not in ("public", None):
            continue
        own = text_of(compound)
        if kind != "namespace":
            asked["comment"] += 1
            if not own and name.split("::")[-1] != "Workspace" and not file_texts.get(compound.find("location").get("file")):
                missing["comment"].append(f"{compound.find('location').get('file')}: {name}")
        for member in compound.iter("memberdef"):
            if member.get("prot") != "public" or member.get("kind") not in ("function", "enum"):
                continue
            short = member.findtext("name")
            arguments = member.findtext("argsstring") or ""
            if KNOWN.match(short) or arguments.endswith(("=default", "=delete")):
                continue
            file = member.find("location").get("file")
            path = pathlib.Path(file) if pathlib.Path(file).exists() else pathlib.Path("include") / file
            lines = sources.setdefault(file, path.read_text().split("\n"))
            where = f"{file}:{member.find('location').get('line')}: {name}::{short}"
            text = text_of(member)
            above = comment_above(member, lines)
            constructor = short == name.split("::")[-1]
            asked["comment"] += 1
            if not text and not above and not (constructor and own):
                missing["comment"].append(where)
                continue
            if member.get("kind") != "function" or not ARRAYS.search(arguments):
                continue
            around = " ".join((text, above, own if kind != "namespace" else "", file_texts.get(file, "")))
            for what, words in (("shapes", SHAPES), ("errors", ERRORS)):
                asked[what] += 1
                if not words.search(around):
                    missing[what].append(where)
    for what, places in missing.items():
        print(f"{len(places):5d} of {asked[what]} without {what}")
        if listed or what == "comment":
            print("".join(f"        {place}\n" for place in places), end="")
    return 1 if missing["comment"] else 0


sys.exit(main())
