"""Validation of units by UCUM, the Unified Code for Units of Measure.

    unit        [/] component { (. or /) component }
    component   atom [exponent] [{annotation}]  or  number  or  {annotation}  or  ( component { (. or /) component } )
    atom        a code, or a prefix and the code of a metric unit:  m  km  Cel  [degF]  10*
    exponent    [+ or -] digits

The codes are those of UCUM 2.2 (unitsofmeasure.org), case-sensitive, and two that sensors use and UCUM lacks: `dBm`
and `var`. One pass over the text, without recursion.
"""

import re
from typing import Final

MAX_UNIT_CHARACTERS: Final = 128

_PREFIXES: Final = ("da", "Ki", "Mi", "Gi", "Ti", *"YZEPTGMkhdcmunpfazy")
_METRIC_CODES: Final = """
    m s g rad K C cd mol sr Hz N Pa J W A V F Ohm S Wb Cel T H lm lx Bq Gy Sv l L ar t bar u eV pc [c] [h] [k]
    [eps_0] [mu_0] [e] [m_e] [m_p] [G] [g] [ly] gf Ky Gal dyn erg P Bi St Mx G Oe Gb sb Lmb ph Ci R RAD REM
    cal_[15] cal_[20] cal_m cal_IT cal_th cal tex m[H2O] m[Hg] eq osm g% kat U [iU] [IU] Np B B[SPL] B[V] B[mV]
    B[uV] B[10.nV] B[W] B[kW] st mho bit By Bd
"""
_OTHER_CODES: Final = """
    10* 10^ [pi] % [ppth] [ppm] [ppb] [pptr] gon deg ' '' min h d a_t a_j a_g a wk mo_s mo_j mo_g mo AU atm
    [lbf_av] [in_i] [ft_i] [yd_i] [mi_i] [fth_i] [nmi_i] [kn_i] [sin_i] [sft_i] [syd_i] [cin_i] [cft_i] [cyd_i]
    [bf_i] [cr_i] [mil_i] [cml_i] [hd_i] [ft_us] [yd_us] [in_us] [rd_us] [ch_us] [lk_us] [rch_us] [rlk_us]
    [fth_us] [fur_us] [mi_us] [acr_us] [srd_us] [smi_us] [sct] [twp] [mil_us] [in_br] [ft_br] [rd_br] [ch_br]
    [lk_br] [fth_br] [pc_br] [yd_br] [mi_br] [nmi_br] [kn_br] [acr_br] [gal_us] [bbl_us] [qt_us] [pt_us]
    [gil_us] [foz_us] [fdr_us] [min_us] [crd_us] [bu_us] [gal_wi] [pk_us] [dqt_us] [dpt_us] [tbs_us] [tsp_us]
    [cup_us] [foz_m] [cup_m] [tsp_m] [tbs_m] [gal_br] [pk_br] [bu_br] [qt_br] [pt_br] [gil_br] [foz_br] [fdr_br]
    [min_br] [gr] [lb_av] [oz_av] [dr_av] [scwt_av] [lcwt_av] [ston_av] [lton_av] [stone_av] [pwt_tr] [oz_tr]
    [lb_tr] [sc_ap] [dr_ap] [oz_ap] [lb_ap] [oz_m] [lne] [pnt] [pca] [pnt_pr] [pca_pr] [pied] [pouce] [ligne]
    [didot] [cicero] [degF] [degR] [degRe] [Cal] [Btu_39] [Btu_59] [Btu_60] [Btu_m] [Btu_IT] [Btu_th] [Btu] [HP]
    [den] [in_i'H2O] [in_i'Hg] [PRU] [wood'U] [diop] [p'diop] %[slope] [mesh_i] [Ch] [drp] [hnsf'U] [MET]
    [hp'_X] [hp'_C] [hp'_M] [hp'_Q] [hp_X] [hp_C] [hp_M] [hp_Q] [kp_X] [kp_C] [kp_M] [kp_Q] [pH] [S] [HPF] [LPF]
    [arb'U] [USP'U] [GPL'U] [MPL'U] [APL'U] [beth'U] [anti'Xa'U] [todd'U] [dye'U] [smgy'U] [bdsk'U] [ka'U]
    [knk'U] [mclg'U] [tb'U] [CCID_50] [TCID_50] [EID_50] [PFU] [FFU] [CFU] [IR] [BAU] [AU] [Amb'a'1'U] [PNU]
    [Lf] [D'ag'U] [FEU] [ELU] [EU] Ao b att [psi] circ sph [car_m] [car_Au] [smoot] [m/s2/Hz^(1/2)] [NTU] [FNU]
    bit_s
"""
_METRIC: Final = frozenset((*_METRIC_CODES.split(), "var"))
_OTHERS: Final = frozenset((*_OTHER_CODES.split(), "dBm"))
_COMPONENT: Final = re.compile(
    r"""
    (?P<atom> 10[*^] | (?: [!#-'*,:-<>-Z\\^-z|~] | \[ [!-Z\\^-~]* \] )+ ) (?: [+-]?[0-9]+ )? (?: \{[!-z|~]*\} )?
    | [0-9]+ (?: \{[!-z|~]*\} )?
    | \{[!-z|~]*\}
    """,
    re.VERBOSE,
)
_SUGGESTIONS: Final = {  # common spellings, and the UCUM code of each
    "°C": "Cel", "degC": "Cel", "°F": "[degF]", "degF": "[degF]", "°": "deg", "percent": "%", "pct": "%", "%RH": "%",
    "ppm": "[ppm]", "ppb": "[ppb]", "psi": "[psi]", "NTU": "[NTU]", "Wh": "W.h", "kWh": "kW.h", "MWh": "MW.h",
    "Ah": "A.h", "mAh": "mA.h", "VA": "V.A", "kVA": "kV.A", "VAh": "V.A.h",
    "rpm": "/min", "lux": "lx", "ohm": "Ohm", "sec": "s", "msec": "ms", "hour": "h", "hr": "h", "day": "d",
    "inHg": "[in_i'Hg]", "mmHg": "mm[Hg]", "kn": "[kn_i]", "knots": "[kn_i]", "kmh": "km/h", "in": "[in_i]",
    "mi": "[mi_i]", "gal": "[gal_us]", "lb": "[lb_av]", "bytes": "By", "bits": "bit", "bps": "bit/s",
    "count": "{count}", "Bar": "bar", "hz": "Hz",
}  # fmt: skip
_SIGNS: Final = str.maketrans({"µ": "u", "μ": "u", "²": "2", "³": "3", "·": ".", "⋅": ".", "Ω": "Ohm", "℃": "Cel"})


def unit_problem(unit: str) -> str:
    """The problem of a text that is not a UCUM unit, with a suggestion; "" if it is one, or is empty."""
    problem = _problem(unit)
    return problem and f"{unit!r:.40} is not UCUM: {problem}{_advice(unit)}"


def _problem(unit: str) -> str:
    if len(unit) > MAX_UNIT_CHARACTERS:
        return f"longer than {MAX_UNIT_CHARACTERS} characters"
    at, depth, is_complete = int(unit.startswith("/")), 0, not unit
    while at < len(unit):
        character = unit[at]
        if is_complete and character in "./":
            is_complete = False
        elif is_complete and character == ")" and depth:
            depth -= 1
        elif not is_complete and character == "(":
            depth += 1
        elif not is_complete and (component := _COMPONENT.match(unit, at)) is not None:
            atom = component["atom"]
            if atom is not None and not _is_atom(atom):
                return f"there is no unit {atom!r:.30}"
            is_complete, at = True, component.end() - 1
        else:
            return f"{unit[at:]!r:.20} is not allowed there"
        at += 1
    return "" if is_complete and not depth else "it ends too early"


def _is_atom(text: str) -> bool:
    if text in _METRIC or text in _OTHERS:
        return True
    return any(text.startswith(prefix) and text[len(prefix) :] in _METRIC for prefix in _PREFIXES)


def _advice(unit: str) -> str:
    plain = unit.strip().translate(_SIGNS)
    meant = (
        _SUGGESTIONS.get(unit.strip())
        or _SUGGESTIONS.get(plain)
        or plain.replace("^", "").replace("**", "").replace(" ", ".")
    )
    return f"; did you mean {meant}?" if meant != unit and not _problem(meant) and meant else ""
