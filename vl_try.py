import time, sys
from collections import Counter
t=time.time()
from attnsuite.contracts import contract
from attnsuite.cases import list_tests
from attnsuite.conformance.audit import failure, kills_mutant, run_correct_variants
from attnsuite.conformance.case_tests import CaseTests
c=contract("varlen_attention")
cases=c.cases()
print(len(cases), "cases", time.time()-t)
ms={m.name:m for m in c.mutants()}
print(len(ms),"mutants", time.time()-t)
(ctl,)=c.controls().values()
kills={n:Counter() for n in ms}; names={n:[] for n in ms}
ex=Counter()
for case,dtype in [t for t in list_tests(cases,"cpu") if t[0].family in ("sinks","softcap","heads","items","gradients") and ("-m" not in sys.argv or t[1] in ("float32","float64"))]:
    t0=time.time()
    calls=case.calls(dtype); expected=case.expected(calls,{})
    ex[case.name]+=time.time()-t0
    f=failure(case,calls,expected,ctl)
    if f: print("CONTROL", case.name, dtype, f)
    if "-m" in sys.argv:
        for n,m in (ms.items() if case.family!="combined" else ()):
            if len(kills[n])<2 and dtype in m.dtypes and kills_mutant(case,calls,expected,m):
                kills[n][case.family]+=1; names[n].append(case.name)
print("oracle total", sum(ex.values()), ex.most_common(8))
if "-m" in sys.argv:
    fams={x.family for x in cases}
    for n,k in kills.items():
        if not k: print("SURVIVES", n)
    for n,k in kills.items(): print(n, dict(k))
    for f in sorted(fams):
        print(f, [n for n,k in kills.items() if set(k)-{"combined","documents"}=={f}][:8])
if "-v" in sys.argv:
    p,a,acc=run_correct_variants(c,cases,CaseTests(c,keep=True),print)
    for o in acc: print(o.implementation, o.case,o.dtype,o.detail[:200])
print(time.time()-t)
