"""What is behind wrong answers: known mistakes by name, where they are made, and the smallest input that shows one."""

from attnsuite.conformance.diagnosis.names import EXAMINED as EXAMINED
from attnsuite.conformance.diagnosis.names import Diagnosis as Diagnosis
from attnsuite.conformance.diagnosis.names import Diagnostician as Diagnostician
